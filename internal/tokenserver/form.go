package tokenserver

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"sync"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
)

// bodies pools buffers for form bodies. The buffers are one byte larger than the limit, so that
// oversized bodies can be detected.
var bodies = sync.Pool{New: func() any { return new([oauth.MaxBodyBytes + 1]byte) }}

// readForm returns the body of a request that is within the size limits, to be parsed by
// oauth.ParseParameters. The result is empty if the request has no body.
//
// Errors are *oauth.Error values.
func readForm(r *http.Request) (string, error) {
	if len(r.Method)+len(r.RequestURI)+len(r.Proto)+len("  ") > oauth.MaxRequestLineBytes {
		return "", oauth.ErrRequestLine
	}
	if headerBytes(r.Header) > oauth.MaxHeaderBytes {
		return "", oauth.ErrHeadersTooLarge
	}
	if r.ContentLength > oauth.MaxBodyBytes {
		return "", oauth.ErrBodyTooLarge
	}
	if r.ContentLength == 0 {
		return "", nil
	}
	buffer, _ := bodies.Get().(*[oauth.MaxBodyBytes + 1]byte)
	defer func() {
		clear(buffer[:]) // may contain a secret
		bodies.Put(buffer)
	}()
	n, err := io.ReadFull(r.Body, buffer[:])
	switch {
	case err == nil:
		return "", oauth.ErrBodyTooLarge
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return "", oauth.ErrUnreadableBody
	case n == 0:
		return "", nil
	case !isForm(r.Header.Get("Content-Type")):
		return "", oauth.ErrContentType
	}
	return string(buffer[:n]), nil
}

func isForm(contentType string) bool {
	if contentType == oauth.ContentTypeForm {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == oauth.ContentTypeForm
}

// headerBytes returns the size that the headers have in the HTTP/1.1 wire format.
func headerBytes(header http.Header) int {
	n := 0
	for name, values := range header {
		for _, value := range values {
			n += len(name) + len(value) + len(": \r\n")
		}
	}
	return n
}
