package tokenserver

import (
	"errors"
	"net/http"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientauth"
)

// reasons maps errors to audit reasons if the OAuth error code is not specific enough.
var reasons = map[*oauth.Error]audit.Reason{
	oauth.ErrTooManyFailures: audit.ReasonTooManyFailures,
	oauth.ErrTooManyTokens:   audit.ReasonTooManyTokens,
	oauth.ErrBusy:            audit.ReasonBusy,
	oauth.ErrAssertionsFull:  audit.ReasonBusy,
	oauth.ErrProofsFull:      audit.ReasonBusy,
	oauth.ErrNoClusterKeys:   audit.ReasonBusy,
}

// reasonOf returns the audit reason for a request that failed with err and gets the given response.
func reasonOf(err error, response *oauth.Error) audit.Reason {
	if rejection, ok := errors.AsType[*clientauth.RejectionError](err); ok {
		return rejection.Reason
	}
	if reason, ok := reasons[response]; ok {
		return reason
	}
	return audit.Reason(response.Code)
}

// outcomeOf distinguishes rejections from server errors.
func outcomeOf(response *oauth.Error) audit.Outcome {
	if response.Status >= http.StatusInternalServerError {
		return audit.Failed
	}
	return audit.Refused
}

// event returns the audit event for a request. It omits the client ID of an unknown client, because
// it may be a secret that was sent in the wrong field.
func (r *clientRequest) event(action audit.Action, outcome audit.Outcome) audit.Event {
	e := audit.Event{
		Time: r.now, Action: action, Outcome: outcome,
		SecretID: r.caller.CredentialID, Issuer: r.caller.Issuer, Subject: r.caller.Subject, Source: r.source,
	}
	if client := r.caller.Client; client != nil {
		e.ClientID, e.ClientUID = client.ID, client.UID
	}
	if r.realm != nil {
		e.Realm = r.realm.Name
	}
	if s := r.subject; s != nil {
		e.OnBehalfOf, e.Actors, e.Rule = s.ID, s.Actors(), r.rule
	}
	return e
}
