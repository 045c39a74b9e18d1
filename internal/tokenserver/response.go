package tokenserver

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// tokenAnswer is a successful answer of the token endpoint (RFC 6749 §5.1).
type tokenAnswer struct {
	token    string
	id       token.ID
	lifetime time.Duration
	scope    string
}

// Header values are shared between answers: net/http only reads them.
var (
	jsonContentType = []string{"application/json;charset=UTF-8"}
	noStore         = []string{"no-store"}
	noCache         = []string{"no-cache"}
)

func writeToken(w http.ResponseWriter, a tokenAnswer) {
	scope := ""
	if a.scope != "" {
		// Scope tokens hold neither quotes nor backslashes (RFC 6749 §3.3).
		scope = `,"scope":"` + a.scope + `"`
	}
	setTokenHeaders(w.Header())
	// Part by part, into the buffer of net/http: a body made first would be one more copy.
	for _, part := range [...]string{
		`{"access_token":"`, a.token, `","token_type":"` + oauth.TokenTypeBearer + `","expires_in":`,
		strconv.FormatInt(int64(a.lifetime/time.Second), 10), scope, "}\n",
	} {
		_, _ = io.WriteString(w, part) // a caller that has gone is no error of ours
	}
}

// writeRefusal writes an error answer with the headers that its status calls for. The
// challenge of a 401 is the endpoint's own.
func writeRefusal(w http.ResponseWriter, refusal *oauth.Error) {
	if refusal.Status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	if refusal.RetryAfter != "" {
		w.Header().Set("Retry-After", refusal.RetryAfter)
	}
	writeError(w, refusal)
}

func writeError(w http.ResponseWriter, refusal *oauth.Error) {
	setTokenHeaders(w.Header())
	w.WriteHeader(refusal.Status)
	_, _ = w.Write(refusal.Body())
}

// setTokenHeaders keeps answers out of every cache (RFC 6749 §5.1).
func setTokenHeaders(header http.Header) {
	header["Content-Type"] = jsonContentType
	header["Cache-Control"] = noStore
	header["Pragma"] = noCache
}
