package tokenserver

import (
	"errors"
	"net/http"
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// verificationEndpoint answers /{realm}/oauth2/verify: whether a request with this
// Authorization header may pass a gateway (RFC 6750 §3). Gateways differ in what else of the
// request they bring: some its method, and some its path behind this one.
type verificationEndpoint struct {
	Options
}

func (e *verificationEndpoint) mount(mux *http.ServeMux) {
	mux.Handle("/{realm}"+oauth.VerificationPath, e)
}

// forwardedRealm returns the realm of a request whose path a gateway has put behind this
// endpoint's.
func forwardedRealm(path string) (realm string, ok bool) {
	realm, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return realm, strings.HasPrefix("/"+rest, oauth.VerificationPath+"/")
}

// The headers that tell the API behind a gateway who calls. All three are always there, so
// that the gateway replaces what the caller has set.
const (
	headerClientID = "X-Auth-Client-Id"
	headerRealm    = "X-Auth-Realm"
	headerScope    = "X-Auth-Scope"
)

// ServeHTTP answers a gateway that asks at the endpoint itself: the query is its own.
func (e *verificationEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.serve(w, r, r.PathValue("realm"), r.URL.RawQuery)
}

// serve answers one verification, with what is required in the query, and counts it by its result.
func (e *verificationEndpoint) serve(w http.ResponseWriter, r *http.Request, realm, query string) {
	verified, err := e.answer(realm, query, r)
	if refusal := (*oauth.Error)(nil); errors.As(err, &refusal) {
		e.Metrics.verified(refusal.Code)
		challenge(w.Header(), refusal)
		writeRefusal(w, refusal)
		return
	}
	e.Metrics.verified(resultValid)
	header := w.Header()
	header.Set(headerClientID, verified.ClientID)
	header.Set(headerRealm, realm)
	header.Set(headerScope, verified.Scope)
	header["Cache-Control"] = noStore
}

// answer returns the token of a request that may pass.
//
// Errors are *oauth.Error values.
func (e *verificationEndpoint) answer(realmName, query string, r *http.Request) (token.Verified, error) {
	if !e.Registry.Loaded() {
		return token.Verified{}, oauth.ErrNotLoaded
	}
	realm := e.Registry.Realm(realmName)
	if realm == nil {
		return token.Verified{}, oauth.ErrUnknownRealm
	}
	if headerBytes(r.Header) > oauth.MaxHeaderBytes {
		return token.Verified{}, oauth.ErrHeadersTooLarge
	}
	required, err := oauth.ParseRequirements(query)
	if err != nil {
		return token.Verified{}, err
	}
	presented, err := bearerToken(r.Header)
	if err != nil {
		return token.Verified{}, err
	}
	verified, _, err := realm.Verify(presented, e.Now())
	if err != nil {
		return token.Verified{}, oauth.ErrInvalidToken
	}
	for scope := range strings.FieldsSeq(required.Scope) {
		if !verified.HasScope(scope) {
			return token.Verified{}, oauth.ErrInsufficientScope
		}
	}
	if required.Audience != "" && !verified.HasAudience(required.Audience) {
		return token.Verified{}, oauth.ErrInsufficientScope
	}
	return verified, nil
}

// bearerToken returns the token of the one Authorization header (RFC 6750 §2.1).
//
// Errors: oauth.ErrTokenMissing; oauth.ErrInvalidToken for two headers.
func bearerToken(header http.Header) (string, error) {
	authorization := header["Authorization"]
	if len(authorization) > 1 {
		return "", oauth.ErrInvalidToken
	}
	if len(authorization) == 0 {
		return "", oauth.ErrTokenMissing
	}
	scheme, credentials, _ := strings.Cut(authorization[0], " ")
	presented := strings.Trim(credentials, " ")
	if !strings.EqualFold(scheme, "Bearer") || presented == "" {
		return "", oauth.ErrTokenMissing
	}
	return presented, nil
}

// challenge says how to authenticate (RFC 6750 §3): without an error where no token came.
func challenge(header http.Header, refusal *oauth.Error) {
	switch {
	case errors.Is(refusal, oauth.ErrTokenMissing):
		header.Set("WWW-Authenticate", "Bearer")
	case refusal.Status == http.StatusUnauthorized || refusal.Status == http.StatusForbidden:
		header.Set("WWW-Authenticate", `Bearer error="`+refusal.Code+`"`)
	}
}
