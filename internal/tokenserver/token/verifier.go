package token

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// ErrInvalid says that a token isn't one of the realm, or not valid at that time. It doesn't
// say why: the one who presents it has no right to know.
var ErrInvalid = errors.New("token not valid")

// clockSkew is how far ahead the clock of the server that issued a token may be.
const clockSkew = 30 * time.Second

// maxToken bounds what is looked at. The largest that is issued, with all 256 scopes of
// 128 characters each and 16 audiences, is shorter.
const maxToken = 64 << 10

// encoding refuses what decodes to the same bytes as another text: of a valid token no
// character can be changed (RFC 7515 §2, RFC 4648 §3.5).
var encoding = base64.RawURLEncoding.Strict()

// Verified is what a valid token says.
type Verified struct {
	ClientID string
	Audience []string
	Scope    string // scope tokens joined with spaces
	IssuedAt time.Time
	ID       string // "jti"
	// Payload is the claims as JSON, as they were signed.
	Payload []byte
}

// HasScope reports whether the token has the scope.
func (v *Verified) HasScope(scope string) bool {
	for s := range strings.FieldsSeq(v.Scope) {
		if s == scope {
			return true
		}
	}
	return false
}

// HasAudience reports whether the token is for that audience.
func (v *Verified) HasAudience(audience string) bool { return slices.Contains(v.Audience, audience) }

// Verifier verifies the tokens of one realm. It is safe for concurrent use.
//
// The header of a realm's token is one of as many texts as the realm has keys, and is
// looked up as it stands: what a token says of its algorithm, or brings along ("jwk",
// "jku", "x5u", "crit"), is never read (RFC 8725 §3.1). Should a later version write its
// headers otherwise, it has to know those of the tokens that are under way.
type Verifier struct {
	issuer string
	keys   map[string]*signingkey.Verifier // encoded header → key
}

// NewVerifier returns what verifies the tokens of the realm of that issuer, which has
// those published keys.
func NewVerifier(issuer string, keys []signingkey.PublicKey) *Verifier {
	v := &Verifier{issuer: issuer, keys: make(map[string]*signingkey.Verifier, len(keys))}
	for _, key := range keys {
		v.keys[encodedHeader(key.Algorithm(), key.ID())] = key.Verifier()
	}
	return v
}

// claims are the members of a payload that are looked at (RFC 9068 §2.2).
type claims struct {
	Issuer    string   `json:"iss"`
	ClientID  string   `json:"client_id"`
	Audience  audience `json:"aud"`
	Scope     string   `json:"scope"`
	IssuedAt  int64    `json:"iat"`
	ExpiresAt int64    `json:"exp"`
	ID        string   `json:"jti"`
}

// Verify returns what the token says, in JWS Compact Serialization, if it is one of the
// realm and valid at that time: signature, issuer, "exp", and "iat" with a skew of 30 s.
//
// The error is ErrInvalid.
func (v *Verifier) Verify(compact string, now time.Time) (Verified, error) {
	header, rest, _ := strings.Cut(compact, ".")
	encodedPayload, encodedSignature, _ := strings.Cut(rest, ".")
	key := v.keys[header]
	// A decoder passes over line breaks, strict or not.
	if key == nil || len(compact) > maxToken || strings.ContainsAny(rest, "\r\n") {
		return Verified{}, ErrInvalid
	}
	payload, payloadErr := encoding.DecodeString(encodedPayload)
	signature, signatureErr := encoding.DecodeString(encodedSignature)
	if payloadErr != nil || signatureErr != nil {
		return Verified{}, ErrInvalid
	}
	if key.Verify([]byte(compact[:len(header)+1+len(encodedPayload)]), signature) != nil {
		return Verified{}, ErrInvalid
	}
	var c claims
	if json.Unmarshal(payload, &c) != nil || c.Issuer != v.issuer {
		return Verified{}, ErrInvalid
	}
	issuedAt := time.Unix(c.IssuedAt, 0)
	if !now.Before(time.Unix(c.ExpiresAt, 0)) || issuedAt.After(now.Add(clockSkew)) {
		return Verified{}, ErrInvalid
	}
	return Verified{
		ClientID: c.ClientID, Audience: c.Audience, Scope: c.Scope, IssuedAt: issuedAt, ID: c.ID, Payload: payload,
	}, nil
}

// audience is a string when there is one, and an array of them otherwise (RFC 7519 §4.1.3).
type audience []string

// UnmarshalJSON reads either form.
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
