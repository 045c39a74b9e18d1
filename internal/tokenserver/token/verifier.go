package token

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// ErrInvalid means that a token was not issued by the realm or is not valid at the given time. It
// doesn't contain the reason, which must not be revealed to the sender.
var ErrInvalid = errors.New("token not valid")

// clockSkew is how far ahead the clock of the issuing server may be.
const clockSkew = 30 * time.Second

// maxToken limits the size of a token in bytes. No issued token is larger than oauth.MaxTokenBytes.
const maxToken = 64 << 10

// encoding rejects non-canonical base64, so that no character of a valid token can be changed (RFC
// 7515 §2, RFC 4648 §3.5).
var encoding = base64.RawURLEncoding.Strict()

// Verified is the content of a valid token. What it refers to is read-only, because a Memory shares it.
type Verified struct {
	ClientID string
	Identity string // identity of the client; see Claims
	Audience []string
	Scope    string // space-separated scope tokens
	IssuedAt time.Time
	ID       string // "jti"
	// JKT is the thumbprint of the key to which the token is bound, or empty; see Claims.
	JKT string
	// ExpiresAt is "exp".
	ExpiresAt time.Time
	// Delegation is set if the client acts for another subject.
	Delegation *Delegation
	// Payload contains the signed claims as JSON.
	Payload []byte
}

// Subject returns "sub".
func (v *Verified) Subject() string {
	if v.Delegation != nil {
		return v.Delegation.Subject
	}
	return v.ClientID
}

// HasScope reports whether the token has the given scope.
func (v *Verified) HasScope(scope string) bool {
	for s := range strings.FieldsSeq(v.Scope) {
		if s == scope {
			return true
		}
	}
	return false
}

// HasAudience reports whether the token has the given audience.
func (v *Verified) HasAudience(audience string) bool { return slices.Contains(v.Audience, audience) }

// Verifier verifies the tokens of one realm. It is safe for concurrent use.
//
// All tokens signed with the same key have the same header, so the key is looked up by the encoded
// header. The header's algorithm and other parameters ("jwk", "jku", "x5u", "crit") are never
// parsed (RFC 8725 §3.1). If a future version changes the header, it must also accept the previous
// header until all older tokens have expired.
type Verifier struct {
	issuer string
	keys   map[string]verifyingKey // by encoded header
}

// verifyingKey is a key of an issuer.
type verifyingKey struct {
	signingkey.PublicKey
	fingerprint fingerprint // of the issuer and the key
}

// NewVerifier returns a Verifier for the tokens of a realm with the given issuer and published
// keys.
//
// Errors: from computing the thumbprints of the keys.
func NewVerifier(issuer string, keys []signingkey.PublicKey) (*Verifier, error) {
	v := &Verifier{issuer: issuer, keys: make(map[string]verifyingKey, len(keys))}
	for _, key := range keys {
		thumbprint, err := key.Thumbprint()
		if err != nil {
			return nil, err
		}
		// All thumbprints have the same length, so that no other key and issuer have this fingerprint.
		v.keys[encodedHeader(key.Algorithm(), key.ID(), Type)] = verifyingKey{key, sha256.Sum256([]byte(thumbprint + issuer))}
	}
	return v, nil
}

// claims contains the claims that Verify reads (RFC 9068 §2.2).
type claims struct {
	Issuer    string   `json:"iss"`
	ClientID  string   `json:"client_id"`
	Identity  string   `json:"client_uid"`
	Audience  audience `json:"aud"`
	Scope     string   `json:"scope"`
	IssuedAt  int64    `json:"iat"`
	ExpiresAt int64    `json:"exp"`
	ID        string   `json:"jti"`

	Confirmation struct {
		JKT string `json:"jkt"`
	} `json:"cnf"`

	Delegation
}

// Verify verifies a token in JWS Compact Serialization and returns its content. It checks the
// signature, the issuer, "exp" and "iat". The time in "iat" may be up to 30 seconds in the future.
//
// If the memory has the token for this issuer and a key that it has now, Verify checks only the times.
//
// The error is ErrInvalid.
func (v *Verifier) Verify(memory *Memory, compact string, now time.Time) (Verified, error) {
	header, _, _ := strings.Cut(compact, ".")
	key, ok := v.keys[header]
	if !ok || len(compact) > maxToken {
		return Verified{}, ErrInvalid
	}
	id := key.fingerprintOf(compact)
	verified := memory.get(id)
	isNew := verified == nil
	if isNew {
		verified = v.decode(key, header, compact)
	}
	if verified == nil || !now.Before(verified.ExpiresAt) || verified.IssuedAt.After(now.Add(clockSkew)) {
		return Verified{}, ErrInvalid
	}
	if isNew {
		memory.set(id, verified)
	}
	return *verified, nil
}

// fingerprintOf returns the fingerprint of a token that the key verifies.
func (k *verifyingKey) fingerprintOf(compact string) fingerprint {
	var usual [1024]byte // not on the heap
	return sha256.Sum256(append(append(usual[:0], k.fingerprint[:]...), compact...))
}

// decode returns the content of a token with the given encoded header if the key signed it for the issuer, and
// otherwise nil.
func (v *Verifier) decode(key verifyingKey, header, compact string) *Verified {
	dot := strings.LastIndexByte(compact, '.')
	// A header alone has no or one dot. Even a strict base64 decoder ignores line breaks.
	if dot <= len(header) || strings.ContainsAny(compact, "\r\n") {
		return nil
	}
	payload, payloadErr := encoding.DecodeString(compact[len(header)+1 : dot])
	signature, signatureErr := encoding.DecodeString(compact[dot+1:])
	if payloadErr != nil || signatureErr != nil || key.Verify([]byte(compact[:dot]), signature) != nil {
		return nil
	}
	var c claims
	if json.Unmarshal(payload, &c) != nil || c.Issuer != v.issuer {
		return nil
	}
	verified := &Verified{
		ClientID: c.ClientID, Identity: c.Identity, Audience: c.Audience, Scope: c.Scope, IssuedAt: time.Unix(c.IssuedAt, 0), ID: c.ID,
		JKT: c.Confirmation.JKT, Payload: payload, ExpiresAt: time.Unix(c.ExpiresAt, 0),
	}
	// A token that acts for another subject always states the rule that allows it.
	if len(c.Rules) > 0 {
		verified.Delegation = &c.Delegation
	} else if c.Subject != c.ClientID {
		return nil
	}
	return verified
}

// audience is encoded as a string if there is one, and as an array otherwise (RFC 7519 §4.1.3).
type audience []string

// UnmarshalJSON accepts both forms.
func (a *audience) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]string)(a))
	}
	var one string
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	*a = audience{one}
	return nil
}
