package tokenserver

import (
	"errors"
	"net/http"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientauth"
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
	if rejection, ok := errors.AsType[*clientauth.Rejection](err); ok {
		return rejection.Reason
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
		SecretID: r.SecretID, Source: r.source,
	}
	if r.Client != nil {
		e.ClientID, e.ClientUID = r.Client.ID, r.Client.UID
	}
	if r.realm != nil {
		e.Realm = r.realm.Name
	}
	return e
}
