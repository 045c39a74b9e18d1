package apiclient

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// publicKeysSupported checks that the members of each public key form a valid key, which the
// schema cannot check.
func publicKeysSupported(seen observed, _ *config.Instance) *condition.Result {
	for _, jwk := range seen.client.Spec.PublicKeys {
		if _, err := parseKey(jwk); err != nil {
			return notReady(v1alpha1.ReasonPublicKeyNotSupported, "The key %q in spec.publicKeys cannot be used: %v. Copy the public key again, or generate a new key pair.", jwk.KeyID, err)
		}
	}
	return nil
}

// publicKeys returns the keys that verify the client's assertions, sorted by ID. It skips invalid
// keys; a client with an invalid key is not Accepted anyway.
func publicKeys(c *v1alpha1.ApiClient) []signingkey.PublicKey {
	var keys []signingkey.PublicKey
	for _, jwk := range c.Spec.PublicKeys {
		if key, err := parseKey(jwk); err == nil {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b signingkey.PublicKey) int { return cmp.Compare(a.ID(), b.ID()) })
	return keys
}

func parseKey(jwk v1alpha1.PublicKey) (signingkey.PublicKey, error) {
	data, err := json.Marshal(jwk)
	if err != nil {
		return signingkey.PublicKey{}, err
	}
	return signingkey.ParsePublicKey(data)
}
