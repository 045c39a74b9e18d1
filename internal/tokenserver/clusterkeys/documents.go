package clusterkeys

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// Paths of the API server's issuer and keys (OpenID Connect Discovery 1.0). The configuration also
// has the URL of the keys, but that may point outside of the cluster. This path always exists.
const (
	configurationPath = "/.well-known/openid-configuration"
	keysPath          = "/openid/v1/jwks"
)

// errDocuments means that the API server's OpenID documents are not usable.
var errDocuments = errors.New("the API server's OpenID documents are not usable")

// documents is the content of the API server's OpenID documents.
type documents struct {
	issuer string
	keys   map[string]signingkey.PublicKey // by key ID
}

func (d *documents) equal(other documents) bool {
	return d.issuer == other.issuer && maps.EqualFunc(d.keys, other.keys, func(a, b signingkey.PublicKey) bool {
		return a.Equal(b)
	})
}

// parse parses the documents. It skips and counts unsupported keys.
//
// The error is errDocuments, even if only unsupported keys were found.
func parse(configuration, set []byte) (d documents, skipped int, err error) {
	var discovered struct {
		Issuer string `json:"issuer"`
	}
	if err := json.Unmarshal(configuration, &discovered); err != nil || discovered.Issuer == "" {
		return documents{}, 0, fmt.Errorf("%w: %s has no issuer", errDocuments, configurationPath)
	}
	var published struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(set, &published); err != nil {
		return documents{}, 0, fmt.Errorf("%w: %s is not a JWK Set", errDocuments, keysPath)
	}
	keys := map[string]signingkey.PublicKey{}
	for _, jwk := range published.Keys {
		key, err := signingkey.ParsePublicKey(jwk)
		if err != nil || key.ID() == "" {
			skipped++
			continue
		}
		keys[key.ID()] = key
	}
	if len(keys) == 0 {
		return documents{}, skipped, fmt.Errorf("%w: %s has no supported key", errDocuments, keysPath)
	}
	return documents{issuer: discovered.Issuer, keys: keys}, skipped, nil
}
