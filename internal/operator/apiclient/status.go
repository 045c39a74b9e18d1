package apiclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	v1alpha1ac "github.com/realmkeeper/realmkeeper/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// status is a pure function: what people are told of the ApiClient, and of what was
// decided only what was done.
func status(seen observed, d decision, done applied, instance *config.Instance, now time.Time) v1alpha1.ApiClientStatus {
	c := seen.client
	s := v1alpha1.ApiClientStatus{
		ObservedGeneration: c.Generation,
		ClientID:           c.EffectiveClientID(),
		TokenEndpoint:      instance.Issuer(c.Spec.RealmRef.Name) + oauth.TokenPath,
		SecretName:         c.Status.SecretName,
		Secrets:            c.Status.Secrets,
		LastRotationTime:   c.Status.LastRotationTime,
		NextRotationTime:   c.Status.NextRotationTime,
	}
	switch {
	case !done.recorded || d.plan.Secrets == nil:
	case !c.GeneratesSecret() && len(d.needless) == len(seen.owned):
		s.SecretName = ""
	case d.consumer != nil && done.refused == nil:
		s.SecretName = c.EffectiveSecretName()
	}
	if d.record != nil && done.recorded {
		s.Secrets = secretStatus(d.record.Secrets)
		s.NextRotationTime = timeOrNil(d.plan.Next)
		if replaced := lastReplacement(d.plan.Secrets); !replaced.IsZero() {
			s.LastRotationTime = timeOrNil(replaced)
		}
	}
	conditions := condition.NewSet(c.Status.Conditions, c.Generation, metav1.NewTime(now))
	conditions.Put(v1alpha1.ConditionAccepted, d.accepted)
	programmed := programmed(d, done)
	conditions.Put(v1alpha1.ConditionProgrammed, programmed)
	verdict := summary(seen, d, done, programmed, now)
	conditions.Summarize(verdict, stuck[verdict.Reason])
	s.Conditions = conditions.Conditions()
	return s
}

func secretStatus(secrets []record.ClientSecret) []v1alpha1.ClientSecretStatus {
	var told []v1alpha1.ClientSecretStatus
	for _, s := range secrets {
		told = append(told, v1alpha1.ClientSecretStatus{ID: s.ID, CreatedAt: metav1.NewTime(s.CreatedAt), ExpiresAt: timeOrNil(s.ExpiresAt)})
	}
	return told
}

// lastReplacement returns when the newest of those secrets was made that replaced another;
// zero where none did.
func lastReplacement(secrets []record.ClientSecret) time.Time {
	for _, s := range slices.Backward(secrets) {
		if s.Successor {
			return s.CreatedAt
		}
	}
	return time.Time{}
}

func timeOrNil(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	return &metav1.Time{Time: at.Truncate(time.Second)}
}

// stuck are the reasons that someone has to act upon here. The others are decisions, or
// end when another object comes.
var stuck = map[v1alpha1.ConditionReason]bool{
	v1alpha1.ReasonNamespaceNotAllowed:   true,
	v1alpha1.ReasonClientIDConflict:      true,
	v1alpha1.ReasonScopeNotInRealm:       true,
	v1alpha1.ReasonAudienceNotInRealm:    true,
	v1alpha1.ReasonLifetimeExceedsRealm:  true,
	v1alpha1.ReasonSecretConflict:        true,
	v1alpha1.ReasonSecretNotLabelled:     true,
	v1alpha1.ReasonSecretTooShort:        true,
	v1alpha1.ReasonSecretNotUsable:       true,
	v1alpha1.ReasonHashNotSupported:      true,
	v1alpha1.ReasonPublicKeyNotSupported: true,
	v1alpha1.ReasonRecordUnreadable:      true,
}

func programmed(d decision, done applied) condition.Result {
	switch {
	case d.blocked != nil:
		return *d.blocked
	case d.accepted.Status != metav1.ConditionTrue:
		return d.accepted
	case done.state == nil:
		return condition.Progressing("The record for the token servers could not be written yet; it is tried again. The operator's log says why.")
	case done.seamless:
		return acknowledgement.Acknowledged.Result()
	}
	return done.state.Result()
}

// summary is the verdict on the client as a whole: whether it can get a token now.
func summary(seen observed, d decision, done applied, programmed condition.Result, now time.Time) condition.Result {
	spec := &seen.client.Spec
	switch {
	case d.accepted.Status != metav1.ConditionTrue:
		return d.accepted
	case d.blocked != nil:
		return *d.blocked
	case spec.Suspend:
		return condition.NotReady(v1alpha1.ReasonSuspended, "The client is suspended: it gets no token. Set spec.suspend to false to resume.")
	case spec.ExpiresAt != nil && !now.Before(spec.ExpiresAt.Time):
		return condition.NotReady(v1alpha1.ReasonExpired, "The client has expired: it gets no token. Move spec.expiresAt, or delete the client.")
	case d.record != nil && len(d.record.Secrets)+len(d.record.PublicKeys)+len(d.record.ServiceAccounts) == 0:
		return condition.NotReady(v1alpha1.ReasonExpired, "Every secret of spec.secret.hashed has expired: the client gets no token. Add the hash of another.")
	case done.refused != nil:
		return condition.Progressing(fmt.Sprintf("Secret %q can't be written, and is tried again: %s", seen.client.EffectiveSecretName(), because(done.refused)))
	case programmed.Status != metav1.ConditionTrue:
		return programmed
	}
	return realmVerdict(seen.realm)
}

// because is the API server's word on a refused write, without what stood in it.
func because(err error) string {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		message := status.Status().Message
		return message[:min(len(message), 512)]
	}
	return "the API server can't be reached"
}

// realmVerdict lets a client be Ready only in a realm that is. What the realm was before
// its last change counts until it says otherwise: most changes make no difference.
func realmVerdict(realm *v1alpha1.Realm) condition.Result {
	ready := meta.FindStatusCondition(realm.Status.Conditions, string(v1alpha1.ConditionReady))
	switch {
	case ready == nil || ready.Status == metav1.ConditionUnknown:
		return condition.Progressing("Waiting for Realm \"" + realm.Name + "\" to become Ready.")
	case ready.Status == metav1.ConditionFalse:
		return condition.NotReady(v1alpha1.ReasonRealmNotReady, "Realm \""+realm.Name+"\" is not Ready ("+ready.Reason+"). Its status says what to do; this client then goes on by itself.")
	}
	return condition.Ready("The client can get tokens.")
}

// writeStatus applies the status unless the ApiClient has it already, and tells by Events
// what has changed with it. It fails where the ApiClient isn't the newest version: that would tell twice.
func (r *Reconciler) writeStatus(ctx context.Context, c *v1alpha1.ApiClient, s v1alpha1.ApiClientStatus) error {
	if equality.Semantic.DeepEqual(c.Status, s) {
		return nil
	}
	desired, err := apply.Convert[v1alpha1ac.ApiClientStatusApplyConfiguration](s)
	if err != nil {
		return err
	}
	if err := apply.Status(ctx, r.Client, v1alpha1ac.ApiClient(c.Name, c.Namespace).WithResourceVersion(c.ResourceVersion).WithStatus(desired)); err != nil {
		return err
	}
	r.Events.Record(c, c.Status.Conditions, s.Conditions, rotated(&c.Status, &s))
	return nil
}
