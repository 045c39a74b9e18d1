package verify

import (
	"context"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Inflate and Normalize are exported for tests.
var (
	Inflate   = inflate
	Normalize = normalize
)

// List is what tests see of a list.
type List struct {
	Size                int // in bytes
	TTL                 time.Duration
	IssuedAt, ExpiresAt time.Time
}

// ParseList parses a list that the key signs, whatever its ID.
func ParseList(token, issuer, uri string, jwk jose.JSONWebKey) (List, error) {
	l, err := parseList(context.Background(), token, issuer, uri, func(context.Context, string) (*publicKey, error) {
		key, _ := newPublicKey(jwk, algorithm(jwk.Algorithm))
		return key, nil
	})
	if err != nil {
		return List{}, err
	}
	return List{len(l.bits), l.ttl, l.issuedAt, l.expires}, nil
}

// Remember makes the verifier remember the claims of a token as signed by the current key with the ID, whatever its
// signature. It reports false if the issuer has no such key, or the claims are malformed.
func (v *Verifier) Remember(token, keyID string, payload []byte) bool {
	keys, _ := v.keys.current()
	hash, _ := v.signatures.get(token)
	claims, err := decodeClaims(payload)
	if keys[keyID] == nil || err != nil {
		return false
	}
	v.signatures.put(hash, signedClaims{keys[keyID], claims})
	return true
}

// Remembers reports whether the verifier remembers that a current key signed the token.
func (v *Verifier) Remembers(token string) bool {
	_, signed := v.signatures.get(token)
	keys, _ := v.keys.current()
	return signed.key != nil && keys[signed.key.id] == signed.key
}

// RememberNothing makes the verifier verify all signatures, as if each token were new.
func (v *Verifier) RememberNothing() { v.signatures = nil }
