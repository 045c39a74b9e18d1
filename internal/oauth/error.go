package oauth

import (
	"encoding/json"
	"net/http"
)

// Error is an error answer of a realm's endpoint (RFC 6749 §5.2). Values are
// compared by identity with errors.Is; descriptions never repeat input.
type Error struct {
	// Status is the HTTP status code.
	Status int
	// Code is the value of "error".
	Code string
	// Description is the value of "error_description", in the characters that RFC 6749 §5.2 allows.
	Description string
	// RetryAfter is how many seconds a client is asked to wait, as the header of that name
	// says it; empty: it says nothing.
	RetryAfter string

	body []byte
}

// Error returns code and description, for logs.
func (e *Error) Error() string { return e.Code + ": " + e.Description }

// Body returns the JSON answer. The caller must not change it.
func (e *Error) Body() []byte { return e.body }

// The codes of RFC 6749 §5.2, RFC 8707 §2 and RFC 6750 §3.1.
const (
	codeInvalidRequest       = "invalid_request"
	codeInvalidClient        = "invalid_client"
	codeInvalidScope         = "invalid_scope"
	codeInvalidTarget        = "invalid_target"
	codeUnsupportedGrantType = "unsupported_grant_type"
	codeInvalidToken         = "invalid_token"
	codeInsufficientScope    = "insufficient_scope"
	// The two codes of RFC 6749 §4.1.2.1 that fit where waiting helps, and where the server is at fault.
	codeTemporarilyUnavailable = "temporarily_unavailable"
	codeServerError            = "server_error"
)

// The error answers of all endpoints, each one fixed: what differs between two
// requests with the same fault must not show.
var (
	// ErrInvalidClient is the one answer to all that is wrong with credentials or their owner.
	ErrInvalidClient = newError(http.StatusUnauthorized, codeInvalidClient, "Client authentication failed.")

	ErrMethod           = newError(http.StatusMethodNotAllowed, codeInvalidRequest, "This endpoint takes POST.")
	ErrUnknownRealm     = newError(http.StatusNotFound, codeInvalidRequest, "There is no such realm.")
	ErrNotFound         = newError(http.StatusNotFound, codeInvalidRequest, "There is nothing at this address.")
	ErrBodyTooLarge     = newError(http.StatusRequestEntityTooLarge, codeInvalidRequest, "The body is larger than 8 KiB.")
	ErrRequestLine      = newError(http.StatusRequestURITooLong, codeInvalidRequest, "The request line is longer than 4 KiB.")
	ErrHeadersTooLarge  = newError(http.StatusRequestHeaderFieldsTooLarge, codeInvalidRequest, "The headers are larger than 16 KiB.")
	ErrContentType      = newError(http.StatusBadRequest, codeInvalidRequest, "The body must be application/x-www-form-urlencoded.")
	ErrUnreadableBody   = newError(http.StatusBadRequest, codeInvalidRequest, "The body could not be read.")
	ErrMalformed        = newError(http.StatusBadRequest, codeInvalidRequest, "A parameter has a bad percent escape, is not UTF-8 or holds NUL.")
	ErrTooMany          = newError(http.StatusBadRequest, codeInvalidRequest, "There are more than 32 parameters.")
	ErrRepeated         = newError(http.StatusBadRequest, codeInvalidRequest, "A parameter is given more than once.")
	ErrCredentialsQuery = newError(http.StatusBadRequest, codeInvalidRequest,
		"Credentials stand in the query, where they end up in logs. Treat the secret as exposed, and send it in the Authorization header.")
	ErrTwoMethods       = newError(http.StatusBadRequest, codeInvalidRequest, "The client authenticates in more than one way.")
	ErrAssertionType    = newError(http.StatusBadRequest, codeInvalidRequest, "client_assertion_type must be urn:ietf:params:oauth:client-assertion-type:jwt-bearer.")
	ErrNoClientID       = newError(http.StatusBadRequest, codeInvalidRequest, "A service account token needs client_id beside it, since it does not name the client.")
	ErrClientIDMismatch = newError(http.StatusBadRequest, codeInvalidRequest, "client_id differs from the one that authenticates.")
	ErrNoGrantType      = newError(http.StatusBadRequest, codeInvalidRequest, "grant_type is missing.")
	ErrGrantType        = newError(http.StatusBadRequest, codeUnsupportedGrantType, "grant_type must be client_credentials.")
	ErrInvalidScope     = newError(http.StatusBadRequest, codeInvalidScope, "The scope is malformed, unknown or not granted to this client.")
	ErrInvalidTarget    = newError(http.StatusBadRequest, codeInvalidTarget, "The audience or resource is malformed or not granted to this client.")
	ErrNotLoaded        = newLater(http.StatusServiceUnavailable, "1", "The server has not yet loaded its realms. Try again shortly.")
	ErrBusy             = newLater(http.StatusServiceUnavailable, "1", "The server is busy verifying other secrets. Try again shortly.")
	// ErrAssertionsFull is not about this request: too many assertions have yet to expire.
	ErrAssertionsFull = newLater(http.StatusServiceUnavailable, "1", "The server remembers as many assertions as it can. Try again shortly, with one that expires sooner.")
	// ErrNoClusterKeys is not about this request either: the cluster's keys could not be had yet.
	ErrNoClusterKeys = newLater(http.StatusServiceUnavailable, "1", "The server has no keys to verify service account tokens with yet. Try again shortly.")
	// ErrTooManyFailures says nothing about the credentials either: they weren't looked at to the end.
	ErrTooManyFailures = newLater(http.StatusTooManyRequests, "3", "Authentication of this client has failed too often from this address. Try again later.")
	ErrTooManyTokens   = newLater(http.StatusTooManyRequests, "1", "The client has got as many tokens as it may get in a second. Use a token until it expires.")
	// ErrNoToken is for introspection; the other three for verification (RFC 6750 §3).
	ErrNoToken           = newError(http.StatusBadRequest, codeInvalidRequest, "token is missing. It is taken from the body.")
	ErrTokenMissing      = newError(http.StatusUnauthorized, codeInvalidToken, "An access token is needed in the Authorization header.")
	ErrInvalidToken      = newError(http.StatusUnauthorized, codeInvalidToken, "The access token is malformed, expired, revoked or not of this realm.")
	ErrInsufficientScope = newError(http.StatusForbidden, codeInsufficientScope, "The access token lacks a scope or the audience that is needed.")
	ErrServer            = newError(http.StatusInternalServerError, codeServerError, "The server could not answer.")
)

// newLater returns an answer to a request that may be good, but comes at the wrong time.
func newLater(status int, retryAfter, description string) *Error {
	e := newError(status, codeTemporarilyUnavailable, description)
	e.RetryAfter = retryAfter
	return e
}

func newError(status int, code, description string) *Error {
	body, err := json.Marshal(struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}{code, description})
	if err != nil {
		panic(err) // two strings always encode
	}
	return &Error{Status: status, Code: code, Description: description, body: append(body, '\n')}
}
