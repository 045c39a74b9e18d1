// Package token creates and verifies access tokens, which are JWTs that follow the RFC 9068
// profile.
package token

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
	"weak"

	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/protocol/statuslist"
)

// Type is the "typ" header parameter of access tokens (RFC 9068 §2.1).
const Type = "at+jwt"

// maxSignature is the size of the largest signature, which is produced by 2048-bit RSA keys.
const maxSignature = 256

// idBytes is the number of random bytes in "jti" (128 bits).
const idBytes = 16

// Claims are the claims of a token (RFC 9068 §2.2). Times are truncated to seconds.
type Claims struct {
	Issuer   string
	ClientID string   // "client_id", and "sub" unless Delegation is set
	Identity string   // "client_uid", a private claim that distinguishes clients that had the same ID
	Audience []string // at least one
	Scope    string   // space-separated scope tokens; if empty, the token has no scope claim
	IssuedAt time.Time
	Lifetime time.Duration
	// Extra contains additional claims as encoded members of a JSON object, each preceded by a comma.
	Extra []byte
	// JKT is the RFC 7638 thumbprint, in base64url, of the key to which the token is bound (RFC 9449
	// §6.1). If empty, the token is not bound.
	JKT string
	// Delegation is set if the client acts for another subject.
	Delegation *Delegation
	// Status refers to an entry in a status list; zero if the token has no claim "status".
	Status Status
}

// Status refers to an entry in a status list (draft-ietf-oauth-status-list, section 6.2).
type Status struct {
	Prefix string // the result of StatusPrefix for the URI of the list
	Index  int
}

// StatusPrefix returns the claim "status" up to the index, preceded by a comma.
func StatusPrefix(uri string) string {
	return `,"status":{"status_list":{"uri":` + quote(uri) + `,"idx":`
}

// Signer issues tokens signed with one key. It is safe for concurrent use.
type Signer struct {
	key    *signingkey.Signer
	header string               // encoded, including the trailing dot
	self   weak.Pointer[Signer] // made once, because making one takes a lock
}

// NewSigner returns a Signer that uses the given key. Each version of a realm needs another one; see Reuse.
func NewSigner(key *signingkey.Signer) *Signer {
	s := &Signer{key: key, header: encodedHeader(key.Algorithm(), key.KeyID(), Type) + "."}
	s.self = weak.Make(s)
	return s
}

// encodedHeader returns the encoded header of a JWT of the given type (RFC 9068 §2.1).
func encodedHeader(algorithm signingkey.Algorithm, keyID, typ string) string {
	header := `{"alg":` + quote(string(algorithm)) + `,"kid":` + quote(keyID) + `,"typ":"` + typ + `"}`
	return base64.RawURLEncoding.EncodeToString([]byte(header))
}

// SignList returns the signed status list with the given claims in JWS Compact Serialization. The key must be
// one that signs no tokens.
//
// Errors: those of signing.
func SignList(key *signingkey.Signer, claims []byte) ([]byte, error) {
	header := encodedHeader(key.Algorithm(), key.KeyID(), statuslist.Type) + "."
	jwt := base64.RawURLEncoding.AppendEncode([]byte(header), claims)
	signature, err := key.Sign(nil, jwt)
	if err != nil {
		return nil, err
	}
	return base64.RawURLEncoding.AppendEncode(append(jwt, '.'), signature), nil
}

// Sign returns the signed token in JWS Compact Serialization (RFC 7515 §7.1) and its "jti". The
// "jti" is read from random.
//
// Errors: those of reading random and of signing.
func (s *Signer) Sign(claims Claims, random io.Reader) (jwt string, id ID, err error) {
	w, _ := workspaces.Get().(*workspace)
	defer workspaces.Put(w)
	if _, err := io.ReadFull(random, w.id[:]); err != nil {
		return "", ID{}, fmt.Errorf("reading random bytes for a token ID: %w", err)
	}
	w.payload = appendClaims(w.payload[:0], claims, w.id)

	w.jwt = append(w.jwt[:0], s.header...)
	w.jwt = base64.RawURLEncoding.AppendEncode(w.jwt, w.payload)
	signature, err := s.key.Sign(w.signature[:0], w.jwt)
	if err != nil {
		return "", ID{}, err
	}
	w.jwt = append(w.jwt, '.')
	w.jwt = base64.RawURLEncoding.AppendEncode(w.jwt, signature)
	return string(w.jwt), w.id, nil
}

// ID is the value of a token's "jti".
type ID [idBytes]byte

// String returns the encoded "jti".
func (id ID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// workspace is the memory for building a token. It is pooled, because allocating it for each token
// is slow and adds GC pressure.
type workspace struct {
	id        ID
	payload   []byte
	jwt       []byte
	signature [maxSignature]byte
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// appendClaims appends the claims as JSON. It avoids encoding/json because it runs for every token.
// A test compares its output with that of encoding/json.
func appendClaims(b []byte, c Claims, id ID) []byte {
	issuedAt := c.IssuedAt.Unix()
	b = append(b, `{"iss":`...)
	b = appendString(b, c.Issuer)
	if c.Delegation != nil {
		b = appendDelegation(b, c.Delegation)
	} else {
		b = append(b, `,"sub":`...)
		b = appendString(b, c.ClientID)
	}
	b = append(b, `,"client_id":`...)
	b = appendString(b, c.ClientID)
	b = append(b, `,"client_uid":`...)
	b = appendString(b, c.Identity)
	b = append(b, `,"aud":`...)
	b = appendAudience(b, c.Audience)
	b = append(b, `,"iat":`...)
	b = strconv.AppendInt(b, issuedAt, 10)
	b = append(b, `,"exp":`...)
	b = strconv.AppendInt(b, issuedAt+int64(c.Lifetime/time.Second), 10)
	b = append(b, `,"jti":"`...)
	b = base64.RawURLEncoding.AppendEncode(b, id[:])
	b = append(b, '"')
	if c.Scope != "" {
		b = append(b, `,"scope":`...)
		b = appendString(b, c.Scope)
	}
	b = append(b, c.Extra...)
	if c.JKT != "" {
		b = append(b, `,"cnf":{"jkt":"`...)
		b = append(b, c.JKT...)
		b = append(b, `"}`...)
	}
	if c.Status.Prefix != "" {
		b = append(b, c.Status.Prefix...)
		b = strconv.AppendInt(b, int64(c.Status.Index), 10)
		b = append(b, "}}"...)
	}
	return append(b, '}')
}

// appendAudience appends a single audience as a string, and several as an array (RFC 7519 §4.1.3).
func appendAudience(b []byte, audience []string) []byte {
	if len(audience) == 1 {
		return appendString(b, audience[0])
	}
	b = append(b, '[')
	for i, a := range audience {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, a)
	}
	return append(b, ']')
}

// appendString appends s as a JSON string. It uses encoding/json only for strings that need
// escaping.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return append(b, quote(s)...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func quote(s string) string {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return string(quoted)
}
