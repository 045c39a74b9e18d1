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
