package tokenserver

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// tokenResponse is a successful response from the token endpoint (RFC 6749 §5.1).
type tokenResponse struct {
	issued    token.Issued
	tokenType string
	// issuedType is "issued_token_type" (RFC 8693 §2.2.1); empty if the response has none.
	issuedType string
	lifetime   time.Duration
	scope      string
}

// Responses can share these header values because net/http doesn't modify them.
var (
	jsonContentType = []string{"application/json;charset=UTF-8"}
	noStore         = []string{"no-store"}
	noCache         = []string{"no-cache"}
)

func writeToken(w http.ResponseWriter, r tokenResponse) {
	scope := "" // and what else is rare
	if r.scope != "" {
		// Scope tokens can't contain quotes or backslashes (RFC 6749 §3.3).
		scope = `,"scope":"` + r.scope + `"`
	}
	if r.issuedType != "" {
		scope += `,"issued_token_type":"` + r.issuedType + `"`
	}
	setJSONHeaders(w.Header())
	// Writing the parts directly to net/http's buffer avoids a copy of the body.
	for _, part := range [...]string{
		`{"access_token":"`, r.issued.JWT, `","token_type":"`, r.tokenType, `","expires_in":`,
		strconv.FormatInt(int64(r.lifetime/time.Second), 10), scope, "}\n",
	} {
		_, _ = io.WriteString(w, part) // fails only if the client has disconnected
	}
}

// writeError writes an error response with the headers that its status requires. For a 401, the
// endpoint sets WWW-Authenticate itself.
func writeError(w http.ResponseWriter, rejection *oauth.Error) {
	if rejection.Status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	if rejection.RetryAfter != "" {
		w.Header().Set("Retry-After", rejection.RetryAfter)
	}
	setJSONHeaders(w.Header())
	w.WriteHeader(rejection.Status)
	_, _ = w.Write(rejection.Body()) //nolint:gosec // It is JSON, a media type that browsers don't render.
}

// setJSONHeaders announces JSON, and prevents responses from being cached (RFC 6749 §5.1).
func setJSONHeaders(header http.Header) {
	header["Content-Type"] = jsonContentType
	header["Cache-Control"] = noStore
	header["Pragma"] = noCache
}
