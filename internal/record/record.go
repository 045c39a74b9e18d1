// Package record is the contract between the operator, which writes records, and the
// token servers, which read them.
//
// A record is a Secret of the system namespace that holds what token servers need of one
// Realm or ApiClient, as JSON with a schema version. It is named by its owner's UID, so
// that an object that is deleted and made again never meets its namesake's record.
package record

import (
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// DataKey is the key of a record's Secret under which the JSON stands.
const DataKey = "record.json"

// SchemaVersion is the version of the JSON that this package writes and reads. Members
// may be added within a version; readers pass over what they don't know.
const SchemaVersion = 1

// ErrUnreadable says that a Secret that is labelled as a record doesn't hold a usable one.
var ErrUnreadable = errors.New("record not readable")

// Kind says what a record is of; it is the value of the label v1alpha1.RecordLabel.
type Kind string

// The two kinds of record.
const (
	KindRealm  Kind = v1alpha1.RecordRealm
	KindClient Kind = v1alpha1.RecordClient
)

// Realm is what token servers need of a Realm.
type Realm struct {
	Name   string `json:"name"`
	Issuer string `json:"issuer"`
	// Disabled means that no token is issued, and none verifies.
	Disabled bool `json:"disabled,omitempty"`
	// TokensValidAfter is when the oldest token that verifies may have been issued; zero: at any time.
	TokensValidAfter time.Time `json:"tokensValidAfter,omitzero"`
	// TokenLifetimeSeconds is how long a token is valid, at least 1.
	TokenLifetimeSeconds int64 `json:"tokenLifetimeSeconds"`
	// Audiences are what a token carries when none is asked for; empty: the issuer.
	Audiences []string `json:"audiences,omitempty"`
	// Scopes are what the realm's metadata lists.
	Scopes []string `json:"scopes,omitempty"`
	// TokensPerSecond is how many tokens each client may get in a second; 0: any number.
	TokensPerSecond int32 `json:"tokensPerSecond,omitempty"`
	// KeyCacheSeconds is how long verifiers may cache the public keys: less than a key is
	// published before it signs.
	KeyCacheSeconds int64 `json:"keyCacheSeconds"`
	// Keys are the signing keys with their private members; one is Active.
	Keys []signingkey.Key `json:"keys"`
}

// Client is what token servers need of an ApiClient.
type Client struct {
	// RealmUID is the identity of the realm: a client doesn't follow its realm's name to
	// another realm.
	RealmUID types.UID `json:"realmUID"`
	ClientID string    `json:"clientID"`
	// CreatedAt is when the ApiClient was created, or got its client id from another that had it first.
	CreatedAt time.Time `json:"createdAt"`
	// Disabled means that no token is issued, and none verifies.
	Disabled bool `json:"disabled,omitempty"`
	// ExpiresAt is from when on it is as if Disabled; zero: never.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// TokensValidAfter is when the oldest token that verifies may have been issued; zero: at any time.
	TokensValidAfter time.Time `json:"tokensValidAfter,omitzero"`
	// TokenLifetimeSeconds shortens the realm's lifetime; 0: the realm's.
	TokenLifetimeSeconds int64 `json:"tokenLifetimeSeconds,omitempty"`
	// TokensPerSecond is how many tokens the client may get in a second; 0: the realm's number.
	TokensPerSecond int32 `json:"tokensPerSecond,omitempty"`
	// Scopes are granted; Audiences too, and when empty the realm's.
	Scopes    []string `json:"scopes,omitempty"`
	Audiences []string `json:"audiences,omitempty"`
	// Secrets are the verifiers of the client's secrets.
	Secrets []ClientSecret `json:"secrets"`
	// PublicKeys verify the assertions that the client signs.
	PublicKeys []signingkey.PublicKey `json:"publicKeys,omitempty"`
	// ServiceAccounts may act as the client by their tokens.
	ServiceAccounts []ServiceAccount `json:"serviceAccounts,omitempty"`
}

// ServiceAccount is a service account that exists. Its UID tells it from one of its name that was deleted.
type ServiceAccount struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

// ClientSecret is a secret of a client without its plaintext.
type ClientSecret struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	// ExpiresAt is from when on the secret is refused; zero: never.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Hash is a PHC string that clientsecret.ParseVerifier reads.
	Hash string `json:"hash"`
	// Source is what the operator took the secret from, as long as it is in force: so that it
	// knows what it has hashed already. Empty for a secret that it made, and for one that was
	// replaced. Token servers pass over it.
	Source string `json:"source,omitempty"`
	// Successor means that the secret replaced another which was in force: status tells of that
	// when the other is long gone. Token servers pass over it.
	Successor bool `json:"successor,omitempty"`
}

// SecretName returns the name of the record of the owner with that UID.
func SecretName(kind Kind, owner types.UID) string {
	return string(kind) + "-" + string(owner)
}

// OwnerUID returns the UID of the object that a record's Secret belongs to.
func OwnerUID(secret *corev1.Secret) types.UID {
	_, uid, _ := strings.Cut(secret.Name, "-")
	return types.UID(uid)
}

// KindOf returns the kind of a record's Secret by its name, empty for a Secret that isn't
// a record. The label only selects: a record that lost it is one still.
func KindOf(secret *corev1.Secret) Kind {
	kind, uid, _ := strings.Cut(secret.Name, "-")
	if uid != "" && (Kind(kind) == KindRealm || Kind(kind) == KindClient) {
		return Kind(kind)
	}
	return ""
}

// OwnerName returns the namespace (empty for a Realm) and name of the object that a
// record belongs to.
func OwnerName(secret *corev1.Secret) types.NamespacedName {
	namespace, name, found := strings.Cut(secret.Annotations[v1alpha1.OwnerAnnotation], "/")
	if !found {
		return types.NamespacedName{Name: namespace}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}
