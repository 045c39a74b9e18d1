package tokenserver

import (
	"net/http"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// authorizationEndpoint serves /{realm}/oauth2/authorize. It rejects every request with the same
// page, because a realm has no users. Some client libraries require that metadata name it; see
// oauth.NewMetadata. It never redirects, so that it can't be used to send browsers elsewhere (RFC
// 9700 §4.11).
type authorizationEndpoint struct {
	registry *registry.Registry
}

func (e *authorizationEndpoint) mount(mux *http.ServeMux) {
	mux.Handle("/{realm}"+oauth.AuthorizationPath, e)
}

// authorizationPage contains the error code of RFC 6749 §4.1.2.1 and nothing from the request.
const authorizationPage = `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>unauthorized_client</title></head>
<body>
<h1>unauthorized_client</h1>
<p>This server issues tokens to workloads only. It has no users and no sign-in page.</p>
<p>Configure your application to use the client credentials grant at the token endpoint.</p>
</body>
</html>
`

// ServeHTTP responds with the page.
func (e *authorizationEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, rejection := realmOf(e.registry, r.PathValue("realm")); rejection != nil {
		writeError(w, rejection)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html;charset=UTF-8")
	header["Cache-Control"] = noStore
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write([]byte(authorizationPage))
}
