package tokenserver

import (
	"io"
	"mime"
	"net/http"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
)

// readForm returns the body of a request, to be parsed by oauth.ParseParameters. The result is empty if
// the request has no body.
//
// Errors are *oauth.Error values.
func readForm(r *http.Request) (string, error) {
	if r.ContentLength > oauth.MaxBodyBytes {
		return "", oauth.ErrBodyTooLarge
	}
	if r.ContentLength == 0 {
		return "", nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, oauth.MaxBodyBytes+1))
	switch {
	case err != nil:
		return "", oauth.ErrUnreadableBody
	case len(body) > oauth.MaxBodyBytes:
		return "", oauth.ErrBodyTooLarge
	case len(body) == 0:
		return "", nil
	case !isForm(r.Header.Get("Content-Type")):
		return "", oauth.ErrContentType
	}
	return string(body), nil
}

func isForm(contentType string) bool {
	if contentType == oauth.ContentTypeForm {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == oauth.ContentTypeForm
}
