package tokenserver

import (
	"net/http"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// introspectionEndpoint serves POST /{realm}/oauth2/introspect (RFC 7662). A client may introspect
// its own tokens and those for the audiences that it is allowed to introspect (RFC 7662 §4).
type introspectionEndpoint struct {
	clientEndpoint
}

func (e *introspectionEndpoint) mount(mux *http.ServeMux) {
	mux.Handle("/{realm}"+oauth.IntrospectionPath, e)
}

// inactive is the response for tokens that are invalid or that the client may not introspect. It
// doesn't contain the reason (RFC 7662 §2.2).
const inactive = `{"active":false}` + "\n"

// ServeHTTP responds to an introspection request and counts the result.
func (e *introspectionEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := e.receive(r.PathValue("realm"), r)
	if err == nil {
		err = e.authenticate(r, &request)
	}
	if err == nil && request.parameters.Token == "" {
		err = oauth.ErrNoToken
	}
	if err != nil {
		e.Metrics.introspected(e.respondError(w, r, &request, audit.ActionIntrospection, err).Code)
		return
	}
	verified, _, err := request.realm.Verify(e.memory, request.parameters.Token, request.now)
	setJSONHeaders(w.Header())
	if err == nil && !request.client.MayIntrospect(&verified) {
		e.auditRefused(r.Context(), &request, audit.ActionIntrospection, audit.ReasonAudienceNotAllowed, verified.ID)
		e.Metrics.introspected(resultNotAllowed)
		_, _ = w.Write([]byte(inactive))
		return
	}
	e.auditGranted(r.Context(), &request, audit.ActionIntrospection, token.Issued{})
	if err != nil {
		e.Metrics.introspected(resultInactive)
		_, _ = w.Write([]byte(inactive))
		return
	}
	e.Metrics.introspected(resultActive)
	// RFC 9449 §6.2 requires the type of a token that is bound to a key. Its "cnf" claim is in the
	// payload.
	tokenType := oauth.TokenTypeBearer
	if verified.JKT != "" {
		tokenType = oauth.TokenTypeDPoP
	}
	// The response members have the same names as the token's claims (RFC 7662 §2.2, RFC 9068
	// §2.2).
	response := append([]byte(`{"active":true,"token_type":"`+tokenType+`",`), verified.Payload[len("{"):]...)
	_, _ = w.Write(append(response, '\n'))
}
