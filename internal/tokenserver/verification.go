package tokenserver

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/claimheaders"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/dpop"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/replay"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// verificationEndpoint serves /{realm}/oauth2/verify. Gateways call it to check the Authorization
// header of an API request (RFC 6750 §3). Some gateways also forward the API request's method, and
// some append its path and query to the path that they are configured with. For these, the
// requirements are in the path, before anything that the caller of the API can choose.
type verificationEndpoint struct {
	Options
	proofs *proofs
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
// contains all four, so that the gateway overwrites any values sent by the caller.
const (
	headerClientID = "X-Auth-Client-Id"
	headerRealm    = "X-Auth-Realm"
	headerScope    = "X-Auth-Scope"
	headerSubject  = "X-Auth-Subject"
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

// verification is a request of a gateway.
type verification struct {
	realm    *registry.Realm // nil if it does not exist
	required oauth.Requirements
	// scheme is the authentication scheme for which an error of the token or the proof counts. It is
	// schemeDPoP only if the requirements allow it.
	scheme   string
	verified token.Verified
}

// serve responds to a verification request and counts the result. parse returns the requirements in
// encoded.
func (e *verificationEndpoint) serve(w http.ResponseWriter, r *http.Request, realm string, parse func(string) (oauth.Requirements, error), encoded string) {
	var v verification
	err := e.verify(r, realm, parse, encoded, &v)
	if rejection := (*oauth.Error)(nil); errors.As(err, &rejection) {
		e.Metrics.verified(rejection.Code)
		v.challenge(w.Header(), rejection)
		writeError(w, rejection)
		return
	}
	e.Metrics.verified(resultValid)
	header := w.Header()
	header.Set(headerClientID, v.verified.ClientID)
	header.Set(headerRealm, realm)
	header.Set(headerScope, v.verified.Scope)
	header.Set(headerSubject, v.verified.Subject())
	if v.required.Claims != "" {
		claimheaders.Set(header, v.required.Claims, v.verified.Payload)
	}
	header["Cache-Control"] = noStore
}

// verify checks that the request's token is valid and meets the requirements. It fills v as far as it
// gets.
//
// Errors are *oauth.Error values.
func (e *verificationEndpoint) verify(r *http.Request, realmName string, parse func(string) (oauth.Requirements, error), encoded string, v *verification) error {
	realm, rejection := realmOf(e.Registry, realmName)
	if rejection != nil {
		return rejection
	}
	v.realm = realm
	var err error
	if v.required, err = parse(encoded); err != nil {
		return err
	}
	var presented string
	if v.scheme, presented, err = accessToken(r.Header, v.required.DPoP != ""); err != nil {
		return err
	}
	now := e.Now()
	var client *registry.Client
	if v.verified, client, err = v.realm.Verify(e.memory, presented, now); err != nil {
		return oauth.ErrInvalidToken
	}
	proof, err := e.checkBinding(r.Header, presented, v, now)
	if err != nil {
		return err
	}
	if v.verified.Delegation != nil && !v.required.Delegated {
		return oauth.ErrDelegated
	}
	if !meets(&v.verified, v.required) {
		return oauth.ErrInsufficientScope
	}
	if proof == nil {
		return nil
	}
	if err := e.proofs.use(endpointVerify, client, proof, now); errors.Is(err, replay.ErrUsed) {
		return oauth.ErrProofAtVerify
	} else if err != nil {
		return err
	}
	return nil
}

// checkBinding checks that a token that is bound to a key is presented with a proof by this key for
// the API request, and that no other token is (RFC 9449 §7). It returns the proof, or nil if the
// token is not bound.
//
// Errors: oauth.ErrInvalidToken; oauth.ErrProofAtVerify.
func (e *verificationEndpoint) checkBinding(header http.Header, presented string, v *verification, now time.Time) (*dpop.Proof, error) {
	bound := v.verified.JKT != ""
	if bound != (v.scheme == schemeDPoP) {
		// A client with a bound token must use the other scheme, if the gateway supports it.
		if v.required.DPoP != "" {
			v.scheme = schemeDPoP
		}
		return nil, oauth.ErrInvalidToken
	}
	if !bound {
		return nil, nil
	}
	want := dpop.Want{Token: presented, JKT: v.verified.JKT}
	var requestURL string
	if want.Method, requestURL = apiRequest(header, v.required.DPoP); requestURL != "" {
		want.URLs = []string{requestURL}
	}
	proof, err := e.proofs.check(endpointVerify, header, want, now)
	switch {
	case errors.Is(err, dpop.ErrBinding):
		return nil, oauth.ErrInvalidToken
	case err != nil:
		return nil, oauth.ErrProofAtVerify
	}
	return proof, nil
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
