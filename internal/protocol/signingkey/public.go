package signingkey

import (
	"cmp"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// PublicKey is the public part of a Key, or a third party's public key. It can't hold private
// members: Key.Public copies only the public part, and ParsePublicKey rejects private keys.
type PublicKey struct {
	id        string
	algorithm Algorithm
	key       crypto.PublicKey
}

// ID returns the key's "kid".
func (k PublicKey) ID() string { return k.id }

// Algorithm returns the only algorithm that the key verifies.
func (k PublicKey) Algorithm() Algorithm { return k.algorithm }

// Thumbprint returns the key's JWK SHA-256 thumbprint (RFC 7638) in base64url without padding. A
// token that is bound to the key states it as "jkt" (RFC 9449 §6.1).
func (k PublicKey) Thumbprint() (string, error) { return thumbprint(k.key) }

func thumbprint(public crypto.PublicKey) (string, error) {
	sum, err := (&jose.JSONWebKey{Key: public}).Thumbprint(crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("computing the thumbprint of a key: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}

// JWKS returns the JWK Set (RFC 7517 §5) of the keys, sorted by ID, so that the same keys produce
// the same bytes.
func JWKS(keys []PublicKey) ([]byte, error) {
	keys = slices.SortedFunc(slices.Values(keys), func(a, b PublicKey) int { return cmp.Compare(a.id, b.id) })
	set := jose.JSONWebKeySet{Keys: make([]jose.JSONWebKey, 0, len(keys))}
	for _, k := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.key, KeyID: k.id, Algorithm: string(k.algorithm), Use: "sig"})
	}
	data, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("encoding a JWK Set: %w", err)
	}
	return data, nil
}

// Equal reports whether the keys, their IDs and their algorithms are equal.
func (k PublicKey) Equal(other PublicKey) bool {
	key, ok := k.key.(interface{ Equal(x crypto.PublicKey) bool })
	return ok && k.id == other.id && k.algorithm == other.algorithm && key.Equal(other.key)
}
