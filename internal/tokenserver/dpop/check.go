package dpop

import (
	"crypto/sha256"
	"encoding/base64"
	"time"
)

const (
	// maxAge is how long after "iat" a proof can be used.
	maxAge = 60 * time.Second
	// skew is how far ahead the sender's clock may be.
	skew = 30 * time.Second
)

// Want is the request that a proof must be for.
type Want struct {
	Method string
	// URLs are the URLs of the request. The proof must be for one of them. The query and the fragment
	// don't count.
	URLs []string
	// Token is the access token in the request. If empty, the request has none, and "ath" is ignored.
	Token string
	// JKT is the thumbprint of the key to which the token is bound. If empty, it may be any key.
	JKT string
}

// Check checks that the proof is for the request and was created a short time ago (RFC 9449 §4.3).
//
// Errors: ErrMethod, ErrURL, ErrTime, ErrToken, ErrBinding.
func (p *Proof) Check(want Want, now time.Time) error {
	switch {
	case p.method != want.Method:
		return ErrMethod
	case !sameURL(p.url, want.URLs):
		return ErrURL
	case p.issuedAt.After(now.Add(skew)) || !now.Before(p.Expires()):
		return ErrTime
	case want.Token != "" && p.token != hashOf(want.Token):
		return ErrToken
	case want.JKT != "" && p.JKT != want.JKT:
		return ErrBinding
	}
	return nil
}

// Expires returns the time from which Check rejects the proof.
func (p *Proof) Expires() time.Time { return p.issuedAt.Add(maxAge) }

// hashOf returns the value of "ath" for an access token (RFC 9449 §4.2).
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
