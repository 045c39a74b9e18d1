package tokenserver

import (
	"errors"
	"net/http"
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// verificationEndpoint serves /{realm}/oauth2/verify. Gateways call it to check the Authorization
// header of an API request (RFC 6750 §3). Some gateways also forward the API request's method, and
// some append its path and query to the path that they are configured with. For these, the
// requirements are in the path, before anything that the caller of the API can choose.
type verificationEndpoint struct {
	Options
}

func (e *verificationEndpoint) mount(mux *http.ServeMux) {
	mux.Handle("/{realm}"+oauth.VerificationPath, e)
}

// belowVerification splits the escaped path of a request below the endpoint's path into the realm
// and the rest.
func belowVerification(path string) (realm, rest string, ok bool) {
	realm, rest, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	rest, ok = strings.CutPrefix("/"+rest, oauth.VerificationPath+"/")
	return realm, rest, ok
}

// These headers identify the caller to the API behind the gateway. A successful response always
// contains all three, so that the gateway overwrites any values sent by the caller.
const (
	headerClientID = "X-Auth-Client-Id"
	headerRealm    = "X-Auth-Realm"
	headerScope    = "X-Auth-Scope"
)

// ServeHTTP handles requests for the endpoint's exact path. In these, the query comes from the
// gateway and contains the requirements.
func (e *verificationEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.serve(w, r, r.PathValue("realm"), oauth.ParseRequirements, r.URL.RawQuery)
}

// serveBelow handles requests for a path below the endpoint's path. The rest of the path starts with
// the requirements. The query comes from the API request, so it is ignored.
func (e *verificationEndpoint) serveBelow(w http.ResponseWriter, r *http.Request, realm, rest string) {
	e.serve(w, r, realm, oauth.ParseRequirementsPath, rest)
}

// serve responds to a verification request and counts the result. parse returns the requirements in
// encoded.
func (e *verificationEndpoint) serve(w http.ResponseWriter, r *http.Request, realm string, parse func(string) (oauth.Requirements, error), encoded string) {
	verified, err := e.verify(r, realm, parse, encoded)
	if rejection := (*oauth.Error)(nil); errors.As(err, &rejection) {
		e.Metrics.verified(rejection.Code)
		challenge(w.Header(), rejection)
		writeRejection(w, rejection)
		return
	}
	e.Metrics.verified(resultValid)
	header := w.Header()
	header.Set(headerClientID, verified.ClientID)
	header.Set(headerRealm, realm)
	header.Set(headerScope, verified.Scope)
	header["Cache-Control"] = noStore
}

// verify returns the claims of the request's token if it is valid and meets the requirements.
//
// Errors are *oauth.Error values.
func (e *verificationEndpoint) verify(r *http.Request, realmName string, parse func(string) (oauth.Requirements, error), encoded string) (token.Verified, error) {
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
	required, err := parse(encoded)
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
	if !meets(&verified, required) {
		return token.Verified{}, oauth.ErrInsufficientScope
	}
	return verified, nil
}

// meets reports whether a token has every required scope and the required audience.
func meets(verified *token.Verified, required oauth.Requirements) bool {
	if required.Scope != "" {
		for scope := range strings.SplitSeq(required.Scope, " ") {
			if !verified.HasScope(scope) {
				return false
			}
		}
	}
	return required.Audience == "" || verified.HasAudience(required.Audience)
}

// bearerToken returns the token from the Authorization header (RFC 6750 §2.1).
//
// Errors: oauth.ErrTokenMissing; oauth.ErrInvalidToken if there are several such headers.
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

// challenge sets WWW-Authenticate (RFC 6750 §3). It doesn't include an error if the request has no
// token.
func challenge(header http.Header, rejection *oauth.Error) {
	switch {
	case errors.Is(rejection, oauth.ErrTokenMissing):
		header.Set("WWW-Authenticate", "Bearer")
	case rejection.Status == http.StatusUnauthorized || rejection.Status == http.StatusForbidden:
		header.Set("WWW-Authenticate", `Bearer error="`+rejection.Code+`"`)
	}
}
