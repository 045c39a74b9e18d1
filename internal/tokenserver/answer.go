package tokenserver

import (
	"net/http"
	"strconv"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
)

// tokenAnswer is a successful answer of the token endpoint (RFC 6749 §5.1).
type tokenAnswer struct {
	token    string
	lifetime time.Duration
	scope    string
}

// retryAfter is what a client that came too early is asked to wait, in seconds.
const retryAfter = "1"

// Header values are shared between answers: net/http only reads them.
var (
	jsonContentType = []string{"application/json;charset=UTF-8"}
	noStore         = []string{"no-store"}
	noCache         = []string{"no-cache"}
)

func writeToken(w http.ResponseWriter, a tokenAnswer) {
	body := make([]byte, 0, len(a.token)+len(a.scope)+96)
	body = append(body, `{"access_token":"`...)
	body = append(body, a.token...)
	body = append(body, `","token_type":"`+oauth.TokenTypeBearer+`","expires_in":`...)
	body = strconv.AppendInt(body, int64(a.lifetime/time.Second), 10)
	if a.scope != "" {
		// Scope tokens hold neither quotes nor backslashes (RFC 6749 §3.3).
		body = append(body, `,"scope":"`...)
		body = append(body, a.scope...)
		body = append(body, '"')
	}
	body = append(body, "}\n"...)
	setTokenHeaders(w.Header())
	_, _ = w.Write(body) // a caller that has gone is no error of ours
}

// writeRefusal writes an error answer of a realm's endpoint, with the headers that its
// status calls for.
func writeRefusal(w http.ResponseWriter, refusal *oauth.Error, realm string) {
	switch refusal.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Basic realm="`+realm+`", charset="UTF-8"`)
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", retryAfter)
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
