package clientauth

import (
	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
)

// Rejection is the OAuth error of a response, with the reason for the audit log. The client must
// not learn the reason.
type Rejection struct {
	Response *oauth.Error
	Reason   audit.Reason
}

// Error returns the OAuth error and the reason, for logs.
func (r *Rejection) Error() string { return r.Response.Error() + " (" + string(r.Reason) + ")" }

// Unwrap returns the OAuth error.
func (r *Rejection) Unwrap() error { return r.Response }

// All of these get the same response, so that it doesn't reveal the reason.
var (
	errNoCredentials  = &Rejection{oauth.ErrInvalidClient, audit.ReasonNoCredentials}
	errUnknownClient  = &Rejection{oauth.ErrInvalidClient, audit.ReasonUnknownClient}
	errWrongSecret    = &Rejection{oauth.ErrInvalidClient, audit.ReasonWrongSecret}
	errWrongAssertion = &Rejection{oauth.ErrInvalidClient, audit.ReasonWrongAssertion}
	errRealmDisabled  = &Rejection{oauth.ErrInvalidClient, audit.ReasonRealmDisabled}
	errClientDisabled = &Rejection{oauth.ErrInvalidClient, audit.ReasonClientDisabled}
	errClientExpired  = &Rejection{oauth.ErrInvalidClient, audit.ReasonClientExpired}
)
