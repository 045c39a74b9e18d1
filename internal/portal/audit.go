package portal

import (
	"errors"
	"net/netip"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/audit"
)

// change is what a person wants to do to a client.
type change struct {
	action   audit.Action
	client   *v1alpha1.ApiClient
	secretID string // of the secret that is made or ended; empty: none
}

// audit writes the line of a change, with what came of it.
func (p *portal) audit(v *visit, c change, err error) {
	outcome, reason := outcomeOf(err)
	source, _ := netip.ParseAddrPort(v.r.RemoteAddr) // left out where it is none
	p.Audit.Write(audit.Event{
		Time: p.Now(), Action: c.action, Outcome: outcome, Reason: reason, Actor: v.session.Person.Name,
		Realm: c.client.Spec.RealmRef.Name, ClientID: c.client.EffectiveClientID(), ClientUID: string(c.client.UID),
		SecretID: c.secretID, Source: source.Addr(),
	})
}

// outcomeOf says what came of a change, by its error.
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
	case errors.Is(err, errNoSuchPage), apierrors.IsNotFound(err):
		return audit.Refused, audit.ReasonNotFound
	}
	return audit.Failed, audit.ReasonAPIServer
}
