// Package bearer has HTTP handlers called with access tokens of a realm alone (RFC 6750,
// RFC 9068).
//
// It is an example to take over. go-oidc verifies tokens and looks after the realm's keys;
// what stands here is what it leaves to its callers: the type of the token, scopes, and what
// HTTP answers.
package bearer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// algorithms are all that a realm can sign with. The metadata of a realm names the one that it
// signs with now, and that may change.
var algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.EdDSA, jose.RS256, jose.PS256}

// ErrInvalidToken says that a token was refused.
var ErrInvalidToken = errors.New("invalid token")

// Verifier verifies access tokens of one realm for one API. It is safe for concurrent use.
type Verifier struct {
	tokens *oidc.IDTokenVerifier
}

// NewVerifier finds the keys of the issuer by discovery. audience is the name of this API, as
// tokens for it carry it. ctx lasts as long as the verifier is used; oidc.ClientContext puts
// the HTTP client into it that gets the keys.
//
// Errors: the issuer can't be reached, or says that it is another.
func NewVerifier(ctx context.Context, issuer, audience string) (*Verifier, error) {
	provider, err := oidc.NewProvider(ctx, issuer)
	if err != nil {
		return nil, fmt.Errorf("discovering %s: %w", issuer, err)
	}
	config := &oidc.Config{ClientID: audience}
	for _, algorithm := range algorithms {
		config.SupportedSigningAlgs = append(config.SupportedSigningAlgs, string(algorithm))
	}
	return &Verifier{tokens: provider.VerifierContext(ctx, config)}, nil
}

// Caller is who called.
type Caller struct {
	ClientID string
	Scopes   []string
}

// Verify checks a token as RFC 9068 §4 says.
//
// Errors: ErrInvalidToken, also when the keys can't be had.
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
		Scope    string `json:"scope"`
	}
	if err := verified.Claims(&claims); err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	return Caller{ClientID: claims.ClientID, Scopes: strings.Fields(claims.Scope)}, nil
}

var errType = errors.New("not an access token by its type")

// checkType keeps JWTs out that the issuer signed for another purpose.
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

// Require lets requests pass to next whose token carries the scope, or any valid token where
// scope is empty. next finds the Caller in the request's context.
func (v *Verifier) Require(scope string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, sent := tokenOf(r)
		if !sent {
			refuse(w, http.StatusUnauthorized, "Bearer")
			return
		}
		caller, err := v.Verify(r.Context(), token)
		if err != nil {
			refuse(w, http.StatusUnauthorized, `Bearer error="invalid_token"`)
			return
		}
		if scope != "" && !slices.Contains(caller.Scopes, scope) {
			refuse(w, http.StatusForbidden, `Bearer error="insufficient_scope", scope="`+scope+`"`)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
	})
}

type callerKey struct{}

// CallerOf returns who called, to handlers behind Require.
func CallerOf(ctx context.Context) Caller {
	caller, _ := ctx.Value(callerKey{}).(Caller)
	return caller
}

// tokenOf takes a token from the Authorization header alone: in a URL it would end up in logs.
func tokenOf(r *http.Request) (token string, sent bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// refuse answers as RFC 6750 §3 says.
func refuse(w http.ResponseWriter, status int, challenge string) {
	w.Header().Set("WWW-Authenticate", challenge)
	http.Error(w, http.StatusText(status), status)
}
