package tokenserver

import (
	"errors"
	"net/http"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
)

// refusal is an answer with a reason that the answer doesn't tell.
type refusal struct {
	answer *oauth.Error
	reason audit.Reason
}

func (r *refusal) Error() string { return r.answer.Error() + " (" + string(r.reason) + ")" }

func (r *refusal) Unwrap() error { return r.answer }

// All that oauth.ErrInvalidClient answers to.
var (
	errNoCredentials  = &refusal{oauth.ErrInvalidClient, audit.ReasonNoCredentials}
	errUnknownClient  = &refusal{oauth.ErrInvalidClient, audit.ReasonUnknownClient}
	errWrongSecret    = &refusal{oauth.ErrInvalidClient, audit.ReasonWrongSecret}
	errWrongAssertion = &refusal{oauth.ErrInvalidClient, audit.ReasonWrongAssertion}
	errRealmDisabled  = &refusal{oauth.ErrInvalidClient, audit.ReasonRealmDisabled}
	errClientDisabled = &refusal{oauth.ErrInvalidClient, audit.ReasonClientDisabled}
	errClientExpired  = &refusal{oauth.ErrInvalidClient, audit.ReasonClientExpired}
)

// reasons are those of answers whose code is too coarse.
var reasons = map[*oauth.Error]audit.Reason{
	oauth.ErrTooManyFailures: audit.ReasonTooManyFailures,
	oauth.ErrTooManyTokens:   audit.ReasonTooManyTokens,
	oauth.ErrBusy:            audit.ReasonBusy,
	oauth.ErrAssertionsFull:  audit.ReasonBusy,
	oauth.ErrNoClusterKeys:   audit.ReasonBusy,
}

// reasonOf returns why a request failed that is answered with answer.
func reasonOf(err error, answer *oauth.Error) audit.Reason {
	if r := (*refusal)(nil); errors.As(err, &r) {
		return r.reason
	}
	if reason, ok := reasons[answer]; ok {
		return reason
	}
	return audit.Reason(answer.Code)
}

// outcomeOf tells a decision from a fault of ours.
func outcomeOf(answer *oauth.Error) audit.Outcome {
	if answer.Status >= http.StatusInternalServerError {
		return audit.Failed
	}
	return audit.Refused
}

// event is what the audit says of a request. Of a client that doesn't exist it doesn't say the id: it
// may be a secret that somebody has put into the wrong place.
func (r *clientRequest) event(action audit.Action, outcome audit.Outcome) audit.Event {
	e := audit.Event{
		Time: r.now, Action: action, Outcome: outcome,
		SecretID: r.secretID, Source: r.source,
	}
	if r.known != nil {
		e.ClientID, e.ClientUID = r.known.ID, r.known.UID
	}
	if r.realm != nil {
		e.Realm = r.realm.Name
	}
	return e
}
