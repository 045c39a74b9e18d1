package clusterkeys

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// Where the API server publishes its issuer and its keys (OpenID Connect Discovery 1.0). The address of
// the keys that the configuration names may be one outside of the cluster; this one is
// always there.
const (
	configurationPath = "/.well-known/openid-configuration"
	keysPath          = "/openid/v1/jwks"
)

// errDocuments says that the API server publishes what can't be used.
var errDocuments = errors.New("the API server's OpenID documents can't be used")

// documents are what the API server publishes.
type documents struct {
	issuer string
	keys   map[string]signingkey.PublicKey // by id
}

func (d *documents) equal(other documents) bool {
	return d.issuer == other.issuer && maps.EqualFunc(d.keys, other.keys, func(a, b signingkey.PublicKey) bool {
		return a.Equal(b)
	})
}

// parse reads the documents. Keys of a kind that isn't supported are skipped, and counted.
//
// The error is errDocuments, also where no key is left.
func parse(configuration, set []byte) (d documents, skipped int, err error) {
	var discovered struct {
		Issuer string `json:"issuer"`
	}
	if err := json.Unmarshal(configuration, &discovered); err != nil || discovered.Issuer == "" {
		return documents{}, 0, fmt.Errorf("%w: %s names no issuer", errDocuments, configurationPath)
	}
	var published struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(set, &published); err != nil {
		return documents{}, 0, fmt.Errorf("%w: %s is no JWK Set", errDocuments, keysPath)
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
		return documents{}, skipped, fmt.Errorf("%w: %s has no key of a supported kind", errDocuments, keysPath)
	}
	return documents{issuer: discovered.Issuer, keys: keys}, skipped, nil
}
