// Package bearer protects HTTP handlers with a realm's access tokens (RFC 6750, RFC 9068).
//
// It is an example that you can copy. go-oidc verifies tokens and manages the realm's keys. This
// package adds what go-oidc leaves to its callers: the token type, scopes, and HTTP responses.
package bearer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// algorithms are all algorithms that a realm can sign with. The realm's metadata lists only the
// current one, which can change.
var algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.EdDSA, jose.RS256, jose.PS256}

// ErrInvalidToken is returned for tokens that are rejected.
var ErrInvalidToken = errors.New("invalid token")

// Verifier verifies access tokens of one realm for one API. It is safe for concurrent use.
type Verifier struct {
	tokens *oidc.IDTokenVerifier
}

// NewVerifier discovers the keys of the issuer. audience is the name of this API in access tokens.
// ctx must stay valid while the verifier is in use; oidc.ClientContext sets the HTTP client that
// loads the keys.
//
// It returns an error if the issuer is unreachable, or if its metadata names a different issuer.
func NewVerifier(ctx context.Context, issuer, audience string) (*Verifier, error) {
	provider, err := oidc.NewProvider(ctx, issuer)
	if err != nil {
		return nil, fmt.Errorf("discover issuer %s: %w", issuer, err)
	}
	return &Verifier{tokens: provider.VerifierContext(ctx, config(audience))}, nil
}

// NewVerifierWithKeys is like NewVerifier, but loads the keys from keysURL when it verifies the first
// token. Use it if this API can't reach the issuer at the issuer's URL.
func NewVerifierWithKeys(ctx context.Context, issuer, keysURL, audience string) *Verifier {
	return &Verifier{tokens: oidc.NewVerifier(issuer, oidc.NewRemoteKeySet(ctx, keysURL), config(audience))}
}

func config(audience string) *oidc.Config {
	c := &oidc.Config{ClientID: audience}
	for _, algorithm := range algorithms {
		c.SupportedSigningAlgs = append(c.SupportedSigningAlgs, string(algorithm))
	}
	return c
}

// Caller is the authenticated client.
type Caller struct {
	ClientID string
	Scopes   []string
}

// Verify validates a token as specified in RFC 9068, section 4.
//
// It returns ErrInvalidToken if the token is invalid or the keys can't be loaded.
func (v *Verifier) Verify(ctx context.Context, token string) (Caller, error) {
	if err := checkType(token); err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	verified, err := v.tokens.Verify(ctx, token)
	if err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	var claims struct {
		ClientID string `json:"client_id"`
		Subject  string `json:"sub"`
		Scope    string `json:"scope"`
		// Confirmation is the key that the token is bound to (RFC 7800).
		Confirmation json.RawMessage `json:"cnf"`
	}
	if err := verified.Claims(&claims); err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	if claims.Confirmation != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrInvalidToken, errBound)
	}
	if claims.Subject != claims.ClientID {
		return Caller{}, fmt.Errorf("%w: %w", ErrInvalidToken, errDelegated)
	}
	return Caller{ClientID: claims.ClientID, Scopes: strings.Fields(claims.Scope)}, nil
}

var (
	errType = errors.New("typ is not at+jwt")
	// errBound is returned for tokens that only the holder of a key may use, because this example doesn't
	// check proofs of keys (RFC 9449).
	errBound = errors.New("the token is bound to a key")
	// errDelegated is returned for tokens with which a client acts for another subject (RFC 8693), because
	// this example decides by the client alone.
	errDelegated = errors.New("the client acts for another subject")
)

// checkType rejects JWTs that the issuer signed for another purpose.
func checkType(token string) error {
	parsed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return err
	}
	kind, _ := parsed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType].(string)
	if strings.TrimPrefix(strings.ToLower(kind), "application/") != "at+jwt" {
		return errType
	}
	return nil
}

// Require calls next for requests with a valid token that has the scope. If scope is empty, any
// valid token is accepted. next can get the Caller with CallerOf.
func (v *Verifier) Require(scope string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, sent := tokenOf(r)
		if !sent {
			reject(w, http.StatusUnauthorized, "Bearer")
			return
		}
		caller, err := v.Verify(r.Context(), token)
		if err != nil {
			reject(w, http.StatusUnauthorized, `Bearer error="invalid_token"`)
			return
		}
		if scope != "" && !slices.Contains(caller.Scopes, scope) {
			reject(w, http.StatusForbidden, `Bearer error="insufficient_scope", scope="`+scope+`"`)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
	})
}

type callerKey struct{}

// CallerOf returns the Caller of a request that passed Require.
func CallerOf(ctx context.Context) Caller {
	caller, _ := ctx.Value(callerKey{}).(Caller)
	return caller
}

// tokenOf returns the token in the Authorization header. It ignores the URL because URLs end up in
// logs.
func tokenOf(r *http.Request) (token string, sent bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// reject sends the response that RFC 6750, section 3 specifies.
func reject(w http.ResponseWriter, status int, challenge string) {
	w.Header().Set("WWW-Authenticate", challenge)
	http.Error(w, http.StatusText(status), status)
}
