package apiclient

import (
	"cmp"
	"errors"
	"slices"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// publicKeysSupported decodes each public key, which the schema cannot do. The schema finds private
// keys by their text, so this also finds those that are spelled in another way.
func (seen *request) publicKeysSupported() *condition.Result {
	for _, key := range seen.client.Spec.PublicKeys {
		switch _, err := parseKey(key); {
		case errors.Is(err, signingkey.ErrPrivateKey):
			return notReady(v1beta1.ReasonPublicKeyNotSupported, "The key %q in spec.publicKeys is a private key. Treat it as compromised: generate a new key pair, and list only its public key.", key.KeyID)
		case err != nil:
			return notReady(v1beta1.ReasonPublicKeyNotSupported, "The key %q in spec.publicKeys cannot be used: %v. Correct it, copy the public key again, or generate a new key pair.", key.KeyID, err)
		}
	}
	return nil
}

// publicKeys returns the keys that verify the client's assertions, sorted by ID. It skips invalid
// keys; a client with an invalid key is not Accepted anyway.
func publicKeys(c *v1beta1.ApiClient) []signingkey.PublicKey {
	var keys []signingkey.PublicKey
	for _, key := range c.Spec.PublicKeys {
		if parsed, err := parseKey(key); err == nil {
			keys = append(keys, parsed)
		}
	}
	slices.SortFunc(keys, func(a, b signingkey.PublicKey) int { return cmp.Compare(a.ID(), b.ID()) })
	return keys
}

func parseKey(key v1beta1.PublicKey) (signingkey.PublicKey, error) {
	if key.PEM != "" {
		return signingkey.ImportPEM([]byte(key.PEM), key.KeyID, signingkey.Algorithm(key.Algorithm))
	}
	return signingkey.ImportJWK([]byte(key.JWK), key.KeyID, signingkey.Algorithm(key.Algorithm))
}
