package verify

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
)

const (
	schemeBearer = "Bearer"
	schemeDPoP   = "DPoP"

	// retryAfter is in seconds.
	retryAfter = "5"
)

// presented says how a token was presented. It is empty for Verify.
type presented struct {
	scheme  string
	request *http.Request
	scopes  []string
}

// VerifyRequest verifies the access token of a request, its DPoP proof if the token is bound to a key, and
// that the token has all of the scopes. It accepts a proof once.
//
// The error matches one of the errors of this package. Challenge creates the response for it.
func (v *Verifier) VerifyRequest(r *http.Request, scopes ...string) (*Claims, error) {
	scheme, token, err := tokenOf(r)
	var claims *Claims
	if err == nil {
		claims, err = v.verify(r.Context(), token, presented{scheme: scheme, request: r, scopes: scopes})
	}
	v.options.Metrics.verified(err)
	if err != nil {
		return nil, err
	}
	return claims, nil
}

// Require returns a middleware that lets requests pass whose token VerifyRequest accepts. The handler gets
// the claims with FromContext. Other requests get the response of Challenge.
func (v *Verifier) Require(scopes ...string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			claims, err := v.VerifyRequest(r, scopes...)
			if err != nil {
				status := v.Challenge(w.Header(), r, err, scopes...)
				http.Error(w, http.StatusText(status), status)
				return
			}
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), claimsKey{}, claims)))
		})
	}
}

type claimsKey struct{}

// FromContext returns the claims of a request that passed Require, or nil.
func FromContext(ctx context.Context) *Claims {
	claims, _ := ctx.Value(claimsKey{}).(*Claims)
	return claims
}

// Challenge returns the HTTP status for an error of VerifyRequest, and sets WWW-Authenticate (RFC 6750 §3,
// RFC 9449 §7.1) or Retry-After:
//
//   - 401 if the token or the proof is missing or invalid,
//   - 403 if the token lacks a scope, or is delegated,
//   - 503 if it is unknown whether the token is valid.
func (v *Verifier) Challenge(header http.Header, r *http.Request, err error, scopes ...string) int {
	if errors.Is(err, ErrKeysUnavailable) || errors.Is(err, ErrStatusUnavailable) || errors.Is(err, ErrTooManyProofs) {
		header.Set("Retry-After", retryAfter)
		return http.StatusServiceUnavailable
	}
	var scope string
	if wanted := strings.Join(scopes, " "); wanted != "" && !strings.ContainsFunc(wanted, notInScope) {
		scope = `scope="` + wanted + `"`
	}
	const algorithms = `algs="` + proofAlgorithms + `"`
	if errors.Is(err, ErrNoToken) {
		if !v.options.DPoP.Required {
			header.Add("WWW-Authenticate", challenge(schemeBearer, scope))
		}
		if v.options.DPoP.URL != "" {
			header.Add("WWW-Authenticate", challenge(schemeDPoP, algorithms, scope))
		}
		return http.StatusUnauthorized
	}
	status, code := http.StatusUnauthorized, "invalid_token"
	if errors.Is(err, ErrScope) || errors.Is(err, ErrDelegated) {
		status, code = http.StatusForbidden, "insufficient_scope"
	}
	if !errors.Is(err, ErrScope) {
		scope = ""
	}
	scheme, _, _ := tokenOf(r)
	if scheme != schemeDPoP && !v.options.DPoP.Required {
		header.Set("WWW-Authenticate", challenge(schemeBearer, `error="`+code+`"`, scope))
		return status
	}
	if errors.Is(err, ErrProof) {
		code = "invalid_dpop_proof"
	}
	header.Set("WWW-Authenticate", challenge(schemeDPoP, `error="`+code+`"`, algorithms, scope))
	return status
}

// challenge returns a challenge with those parameters that aren't empty (RFC 9110 §11.6.1).
func challenge(scheme string, parameters ...string) string {
	parameters = slices.DeleteFunc(parameters, func(p string) bool { return p == "" })
	return strings.TrimSpace(scheme + " " + strings.Join(parameters, ", "))
}

// notInScope reports whether a character can't be in scopes that are separated by spaces (RFC 6749 §3.3).
func notInScope(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }

// tokenOf returns the token in the Authorization header. It ignores the URL because URLs end up in logs.
func tokenOf(r *http.Request) (scheme, token string, err error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", "", ErrNoToken
	}
	scheme, token, _ = strings.Cut(values[0], " ")
	switch {
	case strings.EqualFold(scheme, schemeBearer):
		scheme = schemeBearer
	case strings.EqualFold(scheme, schemeDPoP):
		scheme = schemeDPoP
	default:
		return "", "", ErrNoToken
	}
	if len(values) > 1 {
		return scheme, "", ErrMalformed
	}
	return scheme, strings.TrimLeft(token, " "), nil
}
