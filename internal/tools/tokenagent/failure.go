package tokenagent

import (
	"errors"
	"fmt"
	"time"
)

// The codes of failures that aren't errors of the token endpoint (RFC 6749, section 5.2).
const (
	codeCredentials = "credentials" // the files can't be read or are incomplete
	codeCertificate = "certificate" // the certificate of the token endpoint isn't trusted
	codeConnection  = "connection"  // no response
	codeNotFound    = "not_found"   // no token endpoint at this URL
	codeResponse    = "response"    // a response that isn't one of a token endpoint
	codeOutput      = "output"      // the file can't be written
)

// failure is why a token wasn't renewed. Its text is one line without secrets, and says what to do.
type failure struct {
	code       string // for metrics
	text       string
	cause      error
	retryAfter time.Duration // zero if the token endpoint doesn't say
}

func fail(code string, cause error, format string, args ...any) error {
	return &failure{code: code, cause: cause, text: fmt.Sprintf(format, args...)}
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

// codeOf returns the code of a failure for metrics.
func codeOf(err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return "other"
}

// passes returns whether a failure can pass without a change of the configuration.
func passes(err error) bool {
	switch codeOf(err) {
	case codeConnection, codeResponse, "temporarily_unavailable", "server_error":
		return true
	}
	return false
}

func retryAfter(err error) time.Duration {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.retryAfter
	}
	return 0
}
