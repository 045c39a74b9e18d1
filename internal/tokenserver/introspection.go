package tokenserver

import (
	"net/http"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// introspectionEndpoint answers POST /{realm}/oauth2/introspect (RFC 7662): to a client of
// the realm, about the tokens of any.
type introspectionEndpoint struct {
	clientEndpoint
}

func (e *introspectionEndpoint) mount(mux *http.ServeMux) {
	mux.Handle("/{realm}"+oauth.IntrospectionPath, e)
}

// inactive is the whole answer about a token that isn't valid: nothing tells why (RFC 7662 §2.2).
const inactive = `{"active":false}` + "\n"

// ServeHTTP answers one introspection and counts it by its result.
func (e *introspectionEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("realm")
	request, err := e.read(name, r)
	if err == nil && request.parameters.Token == "" {
		err = oauth.ErrNoToken
	}
	if err != nil {
		e.Metrics.introspected(e.refuse(w, r, &request, audit.ActionIntrospection, err).Code)
		return
	}
	e.granted(r.Context(), &request, audit.ActionIntrospection, token.ID{})
	verified, _, err := request.realm.Verify(request.parameters.Token, request.now)
	setTokenHeaders(w.Header())
	if err != nil {
		e.Metrics.introspected(resultInactive)
		_, _ = w.Write([]byte(inactive))
		return
	}
	e.Metrics.introspected(resultActive)
	// The claims are members of the answer under the names that they have in the token
	// (RFC 7662 §2.2, RFC 9068 §2.2).
	answer := append([]byte(`{"active":true,"token_type":"`+oauth.TokenTypeBearer+`",`), verified.Payload[len("{"):]...)
	_, _ = w.Write(append(answer, '\n'))
}
