// Package backup reads and writes backups: files that contain the Realms and ApiClients of an
// instance and their records, encrypted with age (https://age-encryption.org/v1).
//
// The plaintext consists of lines of JSON: a header, one line for each entry, and a trailer with the
// number of entries. A backup contains the private signing keys of all realms and the verifiers of
// client secrets, but no client secret in plaintext.
package backup

import (
	"encoding/json"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	format = "realmkeeper-backup"
	// Version is the version of the format that this package writes and reads. Members can be added
	// without a new version, because readers ignore unknown members.
	Version = 1
	// maxLine limits the length of a line in bytes. It is well above the size of an object that
	// Kubernetes stores.
	maxLine = 8 << 20
)

// Errors of a backup that can't be read. Each message says what to do.
var (
	// ErrNotBackup means that the file is not a backup.
	ErrNotBackup = errors.New("the file is not a backup of Realmkeeper; check the file name")
	// ErrIdentity means that the file isn't encrypted to any of the identities.
	ErrIdentity = errors.New("the backup is not encrypted to this identity; use the identity file of one of its recipients")
	// ErrDamaged means that the file was cut off or altered.
	ErrDamaged = errors.New("the backup is damaged: it was cut off or altered; use another copy or an older backup")
	// ErrVersion means that the backup has another version of the format.
	ErrVersion = errors.New("the backup has an unsupported version; use the plugin of the release that made it, or a newer one")
)

// Kind is the kind of an entry.
type Kind string

// Kinds of entries. An entry of the kind Realm or ApiClient has an Object, and one of the kind
// RealmRecord or ClientRecord has a Record.
const (
	KindRealm        Kind = "Realm"
	KindClient       Kind = "ApiClient"
	KindRealmRecord  Kind = "RealmRecord"
	KindClientRecord Kind = "ClientRecord"
)

// Header is the first line of a backup.
type Header struct {
	Format    string    `json:"format"`
	Version   int       `json:"version"`
	CreatedAt time.Time `json:"createdAt"`
	// ServiceURL is the base URL of the issuers of all realms, such as https://api.example.com.
	ServiceURL string `json:"serviceURL"`
	// RecordsNamespace is the namespace of the records.
	RecordsNamespace string `json:"recordsNamespace"`
	// PluginVersion is the version of the program that made the backup.
	PluginVersion string `json:"pluginVersion,omitempty"`
}

// Entry is one object of the cluster.
type Entry struct {
	Kind Kind `json:"kind"`
	// Name is the name of the object or of the record's Secret. Namespace is set for ApiClients only.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// UID is the UID of the object or of the record's Secret.
	UID types.UID `json:"uid"`
	// Object is the manifest of a Realm or ApiClient: its spec, labels, and annotations.
	Object json.RawMessage `json:"object,omitempty"`
	// Record is the JSON of a record, unchanged.
	Record json.RawMessage `json:"record,omitempty"`
}

// Counts are the number of entries of each kind.
type Counts struct {
	Realms        int `json:"realms"`
	Clients       int `json:"clients"`
	RealmRecords  int `json:"realmRecords"`
	ClientRecords int `json:"clientRecords"`
}

func (c *Counts) add(kind Kind) bool {
	switch kind {
	case KindRealm:
		c.Realms++
	case KindClient:
		c.Clients++
	case KindRealmRecord:
		c.RealmRecords++
	case KindClientRecord:
		c.ClientRecords++
	default:
		return false
	}
	return true
}

// line is any line after the header.
type line struct {
	*Entry
	End *Counts `json:"end,omitempty"`
}
