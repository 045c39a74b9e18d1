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

// publicKeysSupported sees what a schema can't: whether the members of a key make one.
func publicKeysSupported(seen observed, _ *config.Instance) *condition.Result {
	for _, jwk := range seen.client.Spec.PublicKeys {
		if _, err := parseKey(jwk); err != nil {
			return fault(v1alpha1.ReasonPublicKeyNotSupported, "The key %q of spec.publicKeys can't be used: %v. Copy it anew from what made it, or make another.", jwk.KeyID, err)
		}
	}
	return nil
}

// publicKeys returns the keys that the client signs assertions with, sorted by their ids. A client with
// one that can't be used isn't Accepted.
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
