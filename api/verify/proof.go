package verify

import (
	"crypto"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

const (
	proofType     = "dpop+jwt"
	maxProof      = 4 << 10
	maxProofID    = 256
	proofLifetime = 60 * time.Second
	// proofAlgorithms are in challenges (RFC 9449 §7.1).
	proofAlgorithms = "ES256 ES384 Ed25519 EdDSA PS256 RS256"
)

// proof is a valid proof, which must not be used again before it expires.
type proof struct {
	id      string
	expires time.Time
}

// checkBinding checks that the request has a proof if the token is bound to a key, and that the scheme is
// the one of the token. The result is nil for a Bearer token.
//
// Errors: ErrProof, ErrScheme.
func (v *Verifier) checkBinding(c *Claims, token string, p presented, now time.Time) (*proof, error) {
	switch {
	case c.JKT == "" && v.options.DPoP.Required:
		return nil, fmt.Errorf("%w: the token is not bound to a key", ErrProof)
	case c.JKT == "" && p.scheme == schemeDPoP, c.JKT != "" && p.scheme == schemeBearer:
		return nil, ErrScheme
	case c.JKT == "":
		return nil, nil
	case v.options.DPoP.URL == "" || p.request == nil:
		return nil, fmt.Errorf("%w: the API accepts no tokens that are bound to a key", ErrProof)
	}
	return v.checkProof(c.JKT, token, p.request, now)
}

// checkProof checks a proof as specified in RFC 9449 §4.3, except that it isn't used yet.
func (v *Verifier) checkProof(jkt, token string, r *http.Request, now time.Time) (*proof, error) {
	values := r.Header.Values("DPoP")
	if len(values) != 1 || len(values[0]) > maxProof {
		return nil, fmt.Errorf("%w: there must be one of at most %d bytes", ErrProof, maxProof)
	}
	parsed, err := parseJWS(values[0])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProof, err)
	}
	if parsed.kind != proofType {
		return nil, fmt.Errorf("%w: typ is not %s", ErrProof, proofType)
	}
	if err := checkProofKey(parsed, jkt); err != nil {
		return nil, err
	}
	var claims struct {
		ID       string  `json:"jti"`
		Method   string  `json:"htm"`
		URL      string  `json:"htu"`
		IssuedAt seconds `json:"iat"`
		Token    string  `json:"ath"`
	}
	if err := json.Unmarshal(parsed.payload, &claims); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProof, err)
	}
	hash := sha256.Sum256([]byte(token))
	requested, issuedAt := target(r), claims.IssuedAt.time()
	expires := issuedAt.Add(proofLifetime)
	switch {
	case claims.ID == "" || len(claims.ID) > maxProofID:
		return nil, fmt.Errorf("%w: jti must have 1 to %d bytes", ErrProof, maxProofID)
	case claims.Method != r.Method:
		return nil, fmt.Errorf("%w: it is for another method", ErrProof)
	case strings.Contains(requested, "#") || !sameURL(claims.URL, v.options.DPoP.URL+requested): // net/http keeps a # in the path
		return nil, fmt.Errorf("%w: it is for another URL", ErrProof)
	case now.After(expires) || issuedAt.After(now.Add(v.options.Skew)):
		return nil, fmt.Errorf("%w: it is too old or from the future", ErrProof)
	case subtle.ConstantTimeCompare([]byte(claims.Token), []byte(base64.RawURLEncoding.EncodeToString(hash[:]))) != 1:
		return nil, fmt.Errorf("%w: it is for another token", ErrProof)
	}
	return &proof{id: claims.ID, expires: expires}, nil
}

// checkProofKey checks that the key in the header signed the proof, and that it is the one of the token.
func checkProofKey(parsed *jws, jkt string) error {
	var jwk jose.JSONWebKey
	if parsed.key == nil || jwk.UnmarshalJSON(parsed.key) != nil {
		return fmt.Errorf("%w: there is no valid jwk", ErrProof)
	}
	key, ok := newPublicKey(jwk, parsed.algorithm)
	if !ok || !key.verifies(parsed) {
		return fmt.Errorf("%w: invalid signature", ErrProof)
	}
	thumbprint, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil || base64.RawURLEncoding.EncodeToString(thumbprint) != jkt {
		return fmt.Errorf("%w: the token is bound to another key", ErrProof)
	}
	return nil
}

// target returns the path that the caller requested, also from a complete URL (RFC 9112 §3.2.2). Handlers such as
// http.StripPrefix change only r.URL.
func target(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		return r.RequestURI
	}
	if _, rest, ok := strings.Cut(r.RequestURI, "://"); ok {
		rest, _, _ = strings.Cut(rest, "?")
		_, path, _ := strings.Cut(rest, "/")
		return "/" + path
	}
	return r.URL.EscapedPath()
}

func sameURL(a, b string) bool {
	first, ok := normalize(a)
	second, alsoOK := normalize(b)
	return ok && alsoOK && first == second
}

var defaultPorts = map[string]string{"https": "443", "http": "80"}

// normalize returns an absolute HTTP URL without query and fragment in the normal form of RFC 3986 §6.2.2
// and §6.2.3, as RFC 9449 §4.3 recommends. It keeps dot segments, because an API that doesn't remove them
// either would process another path than the one that was compared.
func normalize(raw string) (string, bool) {
	if end := strings.IndexAny(raw, "?#"); end >= 0 {
		raw = raw[:end]
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || strings.ContainsFunc(rest, notInURL) {
		return "", false
	}
	authority, path := rest, "/"
	if slash := strings.IndexByte(rest, '/'); slash >= 0 {
		authority, path = rest[:slash], rest[slash:]
	}
	// net/url would decode an escaped slash in some paths, so it parses only what precedes the path.
	parsed, err := url.Parse(scheme + "://" + authority)
	if err != nil || parsed.User != nil || parsed.Hostname() == "" || strings.Contains(authority, "%") {
		return "", false
	}
	port, known := defaultPorts[parsed.Scheme]
	host := parsed.Host
	if parsed.Port() == "" || parsed.Port() == port {
		host = strings.TrimSuffix(host, ":"+parsed.Port())
	}
	path, ok = normalizePath(path)
	return parsed.Scheme + "://" + strings.ToLower(host) + path, ok && known
}

// notInURL reports whether a character can't be in a URL. Servers treat a backslash in different ways.
func notInURL(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }

// normalizePath decodes unreserved characters (RFC 3986 §2.3) and writes the other escapes in upper case.
func normalizePath(path string) (string, bool) {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' {
			b.WriteByte(path[i])
			continue
		}
		if i+2 >= len(path) {
			return "", false
		}
		escape := strings.ToUpper(path[i+1 : i+3])
		high, low := strings.IndexByte(hex, escape[0]), strings.IndexByte(hex, escape[1])
		if high < 0 || low < 0 {
			return "", false
		}
		if c := byte(high<<4 | low); unreserved(c) {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + escape)
		}
		i += 2
	}
	return b.String(), true
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}
