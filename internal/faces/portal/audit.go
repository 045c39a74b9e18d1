package portal

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/serve/source"
)

// change describes a change to a client for its audit event.
type change struct {
	action   audit.Action
	client   *v1beta1.ApiClient
	secretID string // ID of the added or revoked secret, if any
}

// audit writes an audit event with the outcome of a change.
func (p *portal) audit(req *request, c change, err error) {
	outcome, reason := outcomeOf(err)
	p.Audit.Write(audit.Event{
		Time: p.Now(), Action: c.action, Outcome: outcome, Reason: reason, Actor: req.session.User.Name,
		Realm: c.client.Spec.RealmRef.Name, ClientID: c.client.EffectiveClientID(), ClientUID: string(c.client.UID),
		SecretID: c.secretID, Source: source.Of(req.r, p.TrustedProxies),
	})
}

// outcomeOf returns the audit outcome and reason for the given error.
func outcomeOf(err error) (audit.Outcome, audit.Reason) {
	switch {
	case err == nil:
		return audit.Granted, ""
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return audit.Refused, audit.ReasonForbidden
	case errors.Is(err, errChanged), apierrors.IsConflict(err):
		return audit.Refused, audit.ReasonChanged
	case errors.Is(err, errManaged):
		return audit.Refused, audit.ReasonManaged
	case errors.Is(err, errInput), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsAlreadyExists(err):
		return audit.Refused, audit.ReasonInvalid
	case errors.Is(err, errPageNotFound), apierrors.IsNotFound(err):
		return audit.Refused, audit.ReasonNotFound
	}
	return audit.Failed, audit.ReasonAPIServer
}
