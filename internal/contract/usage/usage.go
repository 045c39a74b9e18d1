// Package usage defines the ConfigMaps in which token servers report to the operator when
// credentials were last used.
//
// A server has up to MaxReports ConfigMaps of its own. It adds uses to them, and the operator deletes a
// ConfigMap after the status of all clients in it shows the uses. Each update and deletion requires the
// resource version that was read, so neither side overwrites changes by the other.
package usage

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// Label marks the ConfigMaps with reports of token servers.
	Label = "auth.realmkeeper.dev/usage"
	// LabelValue is the value of Label.
	LabelValue = "token-server"
	// DataKey is the key of the report in a ConfigMap.
	DataKey = "report.json"
	// MaxReports is the maximum number of ConfigMaps of a server.
	MaxReports = 16
	// MaxSize is the maximum size of an encoded report in bytes.
	MaxSize = 512 << 10

	// Small entries need much more memory than space in a report. Parse therefore rejects reports with
	// more entries than fit with real UIDs and credentials. Otherwise, a compromised token server
	// could exhaust the memory of the operator.

	// maxClients is the maximum number of clients in a report. The entry of a client has at least 60
	// bytes.
	maxClients = MaxSize / 60
	// maxCredentials is the maximum number of credentials of a client in a report, including replaced
	// ones.
	maxCredentials = 64
)

// Limits for the resolution of reported times, which are whole hours in production.
const (
	// DefaultResolution is the default of the instance configuration.
	DefaultResolution = time.Hour
	// MinResolution and MaxResolution are the limits of the instance configuration.
	MinResolution = time.Hour
	MaxResolution = 24 * time.Hour
)

// maxInterval is the maximum result of Interval.
const maxInterval = time.Minute

// Interval returns the minimum time between two reports of a server: a minute, or a 60th of the
// resolution if that is shorter, as in tests.
func Interval(resolution time.Duration) time.Duration { return min(maxInterval, resolution/60) }

// Truncate returns the beginning of the period of t, in UTC. Periods have the length of the
// resolution and the same boundaries on all servers.
func Truncate(t time.Time, resolution time.Duration) time.Time {
	// Time.Truncate counts from the year 1, which is a multiple of a day away from the Unix epoch.
	return t.UTC().Truncate(resolution)
}

// Type is the type of a credential in a report.
type Type string

// Types of credentials.
const (
	Secret    Type = "secret"
	PublicKey Type = "publicKey"
	Identity  Type = "identity"
)

// Credential identifies a credential of a client.
type Credential struct {
	Type Type
	// ID is the ID of a secret, the key ID of a public key, or the name of an identity. It has 1 to
	// MaxIDLength bytes.
	ID string
}

// MaxIDLength is the maximum length of Credential.ID in bytes.
const MaxIDLength = 128

// errCredential is returned for text that doesn't encode a Credential.
var errCredential = errors.New("invalid credential")

// MarshalText encodes c as "<type>/<id>".
func (c Credential) MarshalText() ([]byte, error) { return []byte(string(c.Type) + "/" + c.ID), nil }

// UnmarshalText decodes the result of MarshalText.
func (c *Credential) UnmarshalText(text []byte) error {
	kind, id, _ := strings.Cut(string(text), "/")
	switch Type(kind) {
	case Secret, PublicKey, Identity:
	default:
		return fmt.Errorf("%w %.64q: unknown type", errCredential, text)
	}
	if id == "" || len(id) > MaxIDLength {
		return fmt.Errorf("%w %.64q: the ID must have 1 to %d bytes", errCredential, text, MaxIDLength)
	}
	c.Type, c.ID = Type(kind), id
	return nil
}
