package clientauth

import (
	"errors"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
)

// RejectionError combines the OAuth error for the response with the reason for the audit log. The
// client must not learn the reason.
type RejectionError struct {
	Response *oauth.Error
	Reason   audit.Reason
}

// Error returns the OAuth error and the reason, for logs.
func (r *RejectionError) Error() string { return r.Response.Error() + " (" + string(r.Reason) + ")" }

// Unwrap returns the OAuth error.
func (r *RejectionError) Unwrap() error { return r.Response }

// All of these errors produce the same response, so that it doesn't reveal the reason.
var (
	errNoCredentials  = &RejectionError{oauth.ErrInvalidClient, audit.ReasonNoCredentials}
	errUnknownClient  = &RejectionError{oauth.ErrInvalidClient, audit.ReasonUnknownClient}
	errWrongSecret    = &RejectionError{oauth.ErrInvalidClient, audit.ReasonWrongSecret}
	errWrongAssertion = &RejectionError{oauth.ErrInvalidClient, audit.ReasonWrongAssertion}
	errUnknownKey     = &RejectionError{oauth.ErrInvalidClient, audit.ReasonUnknownKey}
	errRealmDisabled  = &RejectionError{oauth.ErrInvalidClient, audit.ReasonRealmDisabled}
	errClientDisabled = &RejectionError{oauth.ErrInvalidClient, audit.ReasonClientDisabled}
	errClientExpired  = &RejectionError{oauth.ErrInvalidClient, audit.ReasonClientExpired}
)

// resultOf returns the result of an assertion; see Options.Count.
func resultOf(err error) string {
	if err == nil {
		return ResultAccepted
	}
	if rejection, ok := errors.AsType[*RejectionError](err); ok {
		return string(rejection.Reason)
	}
	if response, ok := errors.AsType[*oauth.Error](err); ok {
		return response.Code
	}
	return oauth.ErrServer.Code
}
