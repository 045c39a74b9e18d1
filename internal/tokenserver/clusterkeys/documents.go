package clusterkeys

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// These are the paths of the API server's issuer and keys (OpenID Connect Discovery 1.0). The
// discovery document also contains a URL for the keys, but it may point outside the cluster. The
// path below always exists.
const (
	configurationPath = "/.well-known/openid-configuration"
	keysPath          = "/openid/v1/jwks"
)

// errDocuments means that the API server's OpenID documents can't be used.
var errDocuments = errors.New("the API server's OpenID documents are not usable")

// documents holds the contents of the API server's OpenID documents.
type documents struct {
	issuer string
	keys   map[string]signingkey.PublicKey // by key ID
}

func (d *documents) has(id string) bool {
	_, ok := d.keys[id]
	return ok
}

func (d *documents) equal(other documents) bool {
	return d.issuer == other.issuer && maps.EqualFunc(d.keys, other.keys, func(a, b signingkey.PublicKey) bool {
		return a.Equal(b)
	})
}

// parse parses the documents. It skips and counts unsupported keys.
//
// The error is errDocuments. It is also returned if all keys are unsupported.
func parse(configuration, set []byte) (d documents, skipped int, err error) {
	var discovered struct {
		Issuer string `json:"issuer"`
	}
	if err := json.Unmarshal(configuration, &discovered); err != nil || discovered.Issuer == "" {
		return documents{}, 0, fmt.Errorf("%w: %s has no issuer", errDocuments, configurationPath)
	}
	published, skipped, err := signingkey.ParseKeySet(set)
	if err != nil {
		return documents{}, skipped, fmt.Errorf("%w: %s: %w", errDocuments, keysPath, err)
	}
	keys := map[string]signingkey.PublicKey{}
	for _, key := range published {
		keys[key.ID()] = key
	}
	return documents{issuer: discovered.Issuer, keys: keys}, skipped, nil
}
