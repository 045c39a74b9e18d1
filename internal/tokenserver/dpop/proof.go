// Package dpop checks the proofs with which the sender of a request shows that it holds a key
// (RFC 9449). It doesn't remember used proofs.
package dpop

import (
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
)

// These are the reasons for rejecting a proof. They are logged but not revealed to the client.
var (
	ErrMalformed = errors.New("DPoP proof is not a signed JWT in compact form with the required claims")
	ErrType      = errors.New("DPoP proof is a JWT of the wrong type")
	ErrKey       = errors.New("DPoP proof has no public key of a supported algorithm")
	ErrSignature = errors.New("DPoP proof has an invalid signature")
	ErrMethod    = errors.New("DPoP proof is for another method")
	ErrURL       = errors.New("DPoP proof is for another URL")
	ErrTime      = errors.New("DPoP proof is too old or from the future")
	ErrToken     = errors.New("DPoP proof is for another access token")
	ErrBinding   = errors.New("DPoP proof is signed with another key than the access token is bound to")
)

const (
	// maxProof is the maximum size of a proof in bytes. One with an RSA key of 4096 bits has about
	// 1,700.
	maxProof = 4 << 10
	// maxID is the maximum length of "jti" in bytes.
	maxID = 256
	// proofType is the value of "typ" (RFC 9449 §4.2).
	proofType = "dpop+jwt"
)

// Proof is a proof whose signature is valid.
type Proof struct {
	// JKT is the thumbprint of the key that signed the proof (RFC 9449 §6.1).
	JKT string
	// ID is the "jti" claim, which the owner of the key must not use again before Expires.
	ID string

	method   string
	url      string
	issuedAt time.Time
	token    string // hash of the access token, or empty
}

// claims are the claims of RFC 9449 §4.2. Others are ignored.
type claims struct {
	ID       string           `json:"jti"`
	Method   string           `json:"htm"`
	URL      string           `json:"htu"`
	IssuedAt *jwt.NumericDate `json:"iat"`
	Token    string           `json:"ath"`
}

// Parse parses the value of a DPoP header and verifies the signature with the key in it.
//
// Errors: ErrMalformed, ErrType, ErrKey, ErrSignature.
func Parse(compact string) (*Proof, error) {
	if len(compact) > maxProof {
		return nil, ErrMalformed
	}
	parsed, err := jws.Parse(compact)
	if err != nil {
		return nil, ErrMalformed
	}
	if parsed.Type != proofType {
		return nil, ErrType
	}
	key, thumbprint, err := embeddedKey(parsed)
	if err != nil {
		return nil, err
	}
	if parsed.Verify(key) != nil {
		return nil, ErrSignature
	}
	var c claims
	// go-jose's JSON decoder is case-sensitive and rejects duplicate members.
	if json.Unmarshal(parsed.Payload, &c) != nil || c.IssuedAt == nil || c.ID == "" || len(c.ID) > maxID {
		return nil, ErrMalformed
	}
	return &Proof{
		JKT: thumbprint, ID: c.ID,
		method: c.Method, url: c.URL, issuedAt: c.IssuedAt.Time(), token: c.Token,
	}, nil
}

// embeddedKey returns the public key in the header and its thumbprint. Anyone can create such a key:
// the thumbprint says who the sender is.
func embeddedKey(parsed *jws.JWT) (signingkey.PublicKey, string, error) {
	var named struct {
		KeyID string `json:"kid"` // means nothing here
	}
	if json.Unmarshal(parsed.Key, &named) != nil {
		return signingkey.PublicKey{}, "", ErrKey
	}
	key, err := signingkey.ImportJWK(parsed.Key, named.KeyID, parsed.Algorithm)
	if err != nil {
		return signingkey.PublicKey{}, "", ErrKey
	}
	thumbprint, err := key.Thumbprint()
	if err != nil {
		return signingkey.PublicKey{}, "", ErrKey
	}
	return key, thumbprint, nil
}
