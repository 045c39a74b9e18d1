package oauth

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Error is an OAuth 2.0 error response (RFC 6749 §5.2). errors.Is compares values by identity, without
// the parameter or value that they name. Descriptions never repeat other input.
type Error struct {
	// Status is the HTTP status code.
	Status int
	// Code is the value of "error".
	Code string
	// Description is the value of "error_description". RFC 6749 §5.2 limits its characters.
	Description string
	// RetryAfter is the value of the Retry-After header in seconds. If empty, the response has no
	// such header.
	RetryAfter string

	body []byte
	kind *Error // the same error without the name of a parameter or value; nil if the error names none
}

// Error returns the code and the description, for logs.
func (e *Error) Error() string { return e.Code + ": " + e.Description }

// Is reports whether target is the error without the name of the parameter or value.
func (e *Error) Is(target error) bool { return e.kind != nil && target == error(e.kind) }

// about returns the error with the name of a parameter in its description. The parameter must be a known one,
// so that the description doesn't repeat other input.
func (e *Error) about(parameter string) *Error {
	named := newError(e.Status, e.Code, strings.Replace(e.Description, "A parameter", "The parameter "+parameter, 1))
	named.kind = e
	return named
}

// maxNamed is the length of the longest value that a description names, which is that of the longest audience.
const maxNamed = 256

// Refusing returns the error with the refused value in its description, unless the value is too long or contains
// a character that RFC 6749 §5.2 doesn't allow there.
func (e *Error) Refusing(value string) *Error {
	notAllowed := func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }
	if value == "" || len(value) > maxNamed || strings.ContainsFunc(value, notAllowed) {
		return e
	}
	named := newError(e.Status, e.Code, e.Description+" The first one is: "+value)
	named.kind = e
	return named
}

// Body returns the JSON response. The caller must not change it.
func (e *Error) Body() []byte { return e.body }

// Error codes defined in RFC 6749 §5.2, RFC 8707 §2, RFC 6750 §3.1 and RFC 9449 §12.2.
const (
	codeInvalidRequest       = "invalid_request"
	codeInvalidClient        = "invalid_client"
	codeInvalidGrant         = "invalid_grant"
	codeInvalidScope         = "invalid_scope"
	codeInvalidTarget        = "invalid_target"
	codeUnsupportedGrantType = "unsupported_grant_type"
	codeInvalidToken         = "invalid_token"
	codeInsufficientScope    = "insufficient_scope"
	codeInvalidDPoPProof     = "invalid_dpop_proof"
	// RFC 6749 §4.1.2.1 defines these two codes for authorization endpoints. They also fit
	// retryable requests and server failures.
	codeTemporarilyUnavailable = "temporarily_unavailable"
	codeServerError            = "server_error"
)

// The error responses of all endpoints. Each one is fixed, except for names of parameters and refused values, so
// that two requests with the same error get the same response.
var (
	// ErrInvalidClient is the only response to invalid credentials and to disabled clients.
	ErrInvalidClient = newError(http.StatusUnauthorized, codeInvalidClient, "Client authentication failed.")

	ErrMethod           = newError(http.StatusMethodNotAllowed, codeInvalidRequest, "This endpoint accepts only POST requests.")
	ErrUnknownRealm     = newError(http.StatusNotFound, codeInvalidRequest, "The realm was not found.")
	ErrNotFound         = newError(http.StatusNotFound, codeInvalidRequest, "The requested path was not found.")
	ErrHistory          = newError(http.StatusNotImplemented, codeInvalidRequest, "The server does not know the status at an earlier time.")
	ErrBodyTooLarge     = newError(http.StatusRequestEntityTooLarge, codeInvalidRequest, "The request body must not be larger than 8 KiB.")
	ErrContentType      = newError(http.StatusBadRequest, codeInvalidRequest, "The request body must be of type application/x-www-form-urlencoded.")
	ErrUnreadableBody   = newError(http.StatusBadRequest, codeInvalidRequest, "The request body could not be read.")
	ErrMalformed        = newError(http.StatusBadRequest, codeInvalidRequest, "A parameter has an invalid percent encoding, is not valid UTF-8, or contains a NUL character.")
	ErrTooMany          = newError(http.StatusBadRequest, codeInvalidRequest, "The request must not have more than 32 parameters.")
	ErrRepeated         = newError(http.StatusBadRequest, codeInvalidRequest, "A parameter must not be repeated. Send it once.")
	ErrDifferent        = newError(http.StatusBadRequest, codeInvalidRequest, "A parameter has different values in the query and in the body. Send it in one place, or the same value in both.")
	ErrCredentialsQuery = newError(http.StatusBadRequest, codeInvalidRequest,
		"Credentials must not be sent in the query string. Treat them as compromised, and use the Authorization header.")
	ErrTwoMethods       = newError(http.StatusBadRequest, codeInvalidRequest, "The request uses more than one client authentication method, or different credentials in the Authorization header and in the body. Send them in one place.")
	ErrAssertionType    = newError(http.StatusBadRequest, codeInvalidRequest, "client_assertion_type must be urn:ietf:params:oauth:client-assertion-type:jwt-bearer or urn:ietf:params:oauth:client-assertion-type:jwt-spiffe.")
	ErrNoClientID       = newError(http.StatusBadRequest, codeInvalidRequest, "client_id is required, because no client holds the subject of this token.")
	ErrClientIDMismatch = newError(http.StatusBadRequest, codeInvalidRequest, "client_id does not match the authenticated client.")
	ErrNoGrantType      = newError(http.StatusBadRequest, codeInvalidRequest, "grant_type is required.")
	ErrGrantType        = newError(http.StatusBadRequest, codeUnsupportedGrantType, "grant_type must be client_credentials, urn:ietf:params:oauth:grant-type:jwt-bearer, or urn:ietf:params:oauth:grant-type:token-exchange.")
	ErrInvalidScope     = newError(http.StatusBadRequest, codeInvalidScope, "A scope is malformed, unknown, or not granted to this client.")
	ErrInvalidTarget    = newError(http.StatusBadRequest, codeInvalidTarget, "An audience or resource is malformed or not granted to this client.")
	// ErrTokenTooLarge is for a token that acts for another subject. The operator ensures that others fit.
	ErrTokenTooLarge = newError(http.StatusBadRequest, codeInvalidScope, "The token would be larger than 6 KiB. Request fewer scopes.")
	// ErrNoAssertion and ErrInvalidGrant are for the JWT bearer grant (RFC 7523 §3.1). ErrInvalidGrant
	// is its counterpart of ErrInvalidClient.
	ErrNoAssertion  = newError(http.StatusBadRequest, codeInvalidRequest, "assertion is required with this grant_type.")
	ErrInvalidGrant = newError(http.StatusBadRequest, codeInvalidGrant, "The assertion is not valid for a client of this realm.")
	// ErrNoSubjectToken and the following are for token exchange (RFC 8693 §2.2.2). ErrInvalidSubject is
	// the only response to an invalid subject token and to an exchange that no rule allows. ErrOwnToken is for
	// a valid token that was issued to the authenticated client, which knows that.
	ErrNoSubjectToken   = newError(http.StatusBadRequest, codeInvalidRequest, "subject_token and subject_token_type are required with this grant_type.")
	ErrSubjectTokenType = newError(http.StatusBadRequest, codeInvalidRequest,
		"subject_token_type must be urn:ietf:params:oauth:token-type:access_token, urn:ietf:params:oauth:token-type:jwt, or urn:ietf:params:oauth:token-type:id_token.")
	ErrRequestedTokenType = newError(http.StatusBadRequest, codeInvalidRequest, "requested_token_type must be omitted, or be urn:ietf:params:oauth:token-type:access_token.")
	ErrActorToken         = newError(http.StatusBadRequest, codeInvalidRequest, "actor_token is not supported, because the authenticated client is the actor. Omit it.")
	ErrNotOneTarget       = newError(http.StatusBadRequest, codeInvalidTarget, "Exactly one audience is required with this grant_type, in audience, in resource, or in both.")
	ErrInvalidSubject     = newError(http.StatusBadRequest, codeInvalidRequest, "The subject token is not valid, or no rule of the realm allows this client to exchange it.")
	ErrOwnToken           = newError(http.StatusBadRequest, codeInvalidRequest, "A client cannot exchange a token that was issued to it. Exchange the token that it received, or use client_credentials to act for itself.")
	// ErrDPoPRequired and ErrInvalidProof are for the token endpoint (RFC 9449 §5).
	ErrDPoPRequired = newError(http.StatusBadRequest, codeInvalidDPoPProof, "This client must send a DPoP proof.")
	ErrInvalidProof = newError(http.StatusBadRequest, codeInvalidDPoPProof,
		"The DPoP proof is malformed, has an invalid signature, was used before, or is not for this time and request.")
	ErrNotLoaded = newRetryable(http.StatusServiceUnavailable, "1", "The server has not loaded its realms yet. Try again later.")
	// ErrNoSigningKey is not caused by the request itself: the realm has no active signing key yet, or the
	// KMS plugin has not decrypted it yet.
	ErrNoSigningKey = newRetryable(http.StatusServiceUnavailable, "5", "The server cannot use a signing key of this realm yet. Try again later.")
	// ErrRevoked is for a client whose new tokens would be rejected until tokensValidAfterTime has passed.
	ErrRevoked = newRetryable(http.StatusServiceUnavailable, "1", "Tokens that are issued now are revoked already. Try again later.")
	ErrBusy    = newRetryable(http.StatusServiceUnavailable, "1", "The server is busy verifying other secrets. Try again later.")
	// ErrHeaders, ErrOverloaded, and ErrSlowBody are for requests that a limit of the server
	// rejects.
	ErrHeaders    = newError(http.StatusRequestHeaderFieldsTooLarge, codeInvalidRequest, "The request line and headers must not be larger than 16 KiB, or have more than 100 different names.")
	ErrOverloaded = newRetryable(http.StatusServiceUnavailable, "1", "The server is processing too many requests. Try again later.")
	ErrSlowBody   = newError(http.StatusRequestTimeout, codeInvalidRequest, "The request body did not arrive in time.")
	// ErrAssertionsFull is not caused by the request itself: too many used assertions have not
	// expired yet.
	ErrAssertionsFull = newRetryable(http.StatusServiceUnavailable, "1", "The server cannot store more used assertions. Try again later with an assertion that expires sooner.")
	// ErrProofsFull is not caused by the request itself: too many used DPoP proofs have not expired
	// yet.
	ErrProofsFull = newRetryable(http.StatusServiceUnavailable, "1", "The server cannot store more used DPoP proofs. Try again later.")
	// ErrNoClusterKeys is not caused by the request itself: the server has not read the cluster's
	// keys yet, or can't ask the API server about an unknown one.
	ErrNoClusterKeys = newRetryable(http.StatusServiceUnavailable, "1", "The server cannot verify service account tokens now. Try again later.")
	// ErrTooManyFailures replaces ErrInvalidClient after too many failures.
	ErrTooManyFailures = newRetryable(http.StatusTooManyRequests, "3", "Requests of this client from this address have failed too many times. Try again later.")
	ErrTooManyTokens   = newRetryable(http.StatusTooManyRequests, "1", "The token rate limit for this client was exceeded. Reuse each token until it expires.")
	// ErrNoToken is for introspection. The others are for verification (RFC 6750 §3, RFC 9449 §7.1).
	ErrNoToken            = newError(http.StatusBadRequest, codeInvalidRequest, "The request body must include the token parameter.")
	ErrUnknownRequirement = newError(http.StatusBadRequest, codeInvalidRequest, "The only parameters of this endpoint are audience, claims, delegated, dpop, and scope.")
	ErrEmptyRequirement   = newError(http.StatusBadRequest, codeInvalidRequest, "Parameters must not be empty if present. Separate scopes with one space.")
	ErrClaimNames         = newError(http.StatusBadRequest, codeInvalidRequest,
		"claims must be 1 to 16 names of letters, digits, hyphens, and underscores, separated by one space. Their headers must differ.")
	ErrDPoPHeaders      = newError(http.StatusBadRequest, codeInvalidRequest, "dpop must be original or forwarded.")
	ErrRequirementsPath = newError(http.StatusBadRequest, codeInvalidRequest,
		"A path below this endpoint must start with require/ and the requirements in base64url without padding.")
	ErrTokenMissing   = newError(http.StatusUnauthorized, codeInvalidToken, "The Authorization header must contain an access token.")
	ErrInvalidToken   = newError(http.StatusUnauthorized, codeInvalidToken, "The access token is malformed, expired, revoked, or issued by another realm.")
	ErrDelegated      = newError(http.StatusForbidden, codeInsufficientScope, "The access token acts for another subject, which this API does not accept.")
	ErrDelegatedValue = newError(http.StatusBadRequest, codeInvalidRequest, "delegated must be true.")
	ErrProofAtVerify  = newError(http.StatusUnauthorized, codeInvalidDPoPProof,
		"The DPoP proof is missing, malformed, used before, or not for this token, time, and request.")
	ErrInsufficientScope = newError(http.StatusForbidden, codeInsufficientScope, "The access token lacks a required scope or audience.")
	ErrServer            = newError(http.StatusInternalServerError, codeServerError, "The server could not process the request.")
)

// newRetryable returns an error that asks the client to try again later. A request with an assertion that
// the client signed needs a new one.
func newRetryable(status int, retryAfter, description string) *Error {
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
