package tokenserver

import (
	"errors"
	"net/http"
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
)

// algorithmsParameter lists the algorithms of DPoP proofs in a challenge (RFC 9449 §7.1).
var algorithmsParameter = `algs="` + strings.Join(jws.Algorithms, " ") + `"`

// challenge sets WWW-Authenticate (RFC 6750 §3, RFC 9449 §7.1). If the request has no token, there is
// no error in it, and it names each scheme that the gateway supports.
func (v *verification) challenge(header http.Header, rejection *oauth.Error) {
	if rejection.Status != http.StatusUnauthorized && rejection.Status != http.StatusForbidden {
		return
	}
	parameters := v.resourceParameters()
	if errors.Is(rejection, oauth.ErrTokenMissing) {
		header.Add("WWW-Authenticate", join(schemeBearer, parameters))
		if v.required.DPoP != "" {
			// Clients that know only Bearer read the first challenge.
			header.Add("WWW-Authenticate", join(schemeDPoP, append([]string{algorithmsParameter}, parameters...)))
		}
		return
	}
	described := []string{`error="` + rejection.Code + `"`}
	if v.scheme == schemeDPoP {
		described = append(described, algorithmsParameter)
	}
	header.Set("WWW-Authenticate", join(v.scheme, append(described, parameters...)))
}

// resourceParameters tell a client how to get a token that meets the requirements: from which
// authorization server (RFC 9728 §5.1) and with which scope (RFC 6750 §3).
func (v *verification) resourceParameters() []string {
	var parameters []string
	if url := v.realm.ResourceMetadataURL(v.required.Audience); url != "" {
		parameters = append(parameters, `resource_metadata="`+url+`"`)
	}
	if v.required.Scope != "" && !strings.ContainsFunc(v.required.Scope, notInScope) {
		parameters = append(parameters, `scope="`+v.required.Scope+`"`)
	}
	return parameters
}

// notInScope reports whether a character can't be in a scope (RFC 6749 §3.3), which contains nothing
// that would end a quoted string.
func notInScope(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }

// join returns a challenge (RFC 9110 §11.6.1).
func join(scheme string, parameters []string) string {
	if len(parameters) == 0 {
		return scheme
	}
	return scheme + " " + strings.Join(parameters, ", ")
}
