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
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	v1beta1ac "github.com/realmkeeper/realmkeeper/api/v1beta1/applyconfiguration/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// outcome is what writing a decision led to.
type outcome struct {
	// written reports whether the desired record has been written.
	written bool
	// delivered reports whether the credentials Secret is as desired.
	delivered bool
	// state reports whether the token servers have acknowledged what workloads depend on in the client's
	// record and the records of its subjects; nil if there is no record, or the desired one was not written.
	state *acknowledgement.State
	// created is the time at which the record was created.
	created time.Time
}

// outcomeOf returns the outcome of the writes of a decision.
func outcomeOf(seen *observed, d *decision) outcome {
	var o outcome
	for _, w := range d.written {
		switch w.(type) {
		case putRecord:
			o.written = true
		case putCredentials:
			o.delivered = true
		}
	}
	if seen.recordSecret != nil && (o.written || d.desired == nil) {
		o.state, o.created = seen.contentState, seen.recordSecret.CreationTimestamp.Time
	}
	return o
}

// report writes the status, and returns when to reconcile again. writeErr is the error from the decision's writes.
func (r *Reconciler) report(ctx context.Context, seen *observed, d *decision, writeErr error) (ctrl.Result, error) {
	done, applyErr := outcomeOf(seen, d), errors.Join(writeErr, seen.credentialsErr)
	if wait := firstStatusDelay(seen.client, done, d.now); wait > 0 && applyErr == nil {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	statusErr := r.writeStatus(ctx, seen, *d, done)
	return ctrl.Result{RequeueAfter: requeueAfter(seen, *d)}, errors.Join(seen.hashErr, applyErr, statusErr)
}

// status is a pure function that returns the status of the ApiClient. It reports only the parts of
// the decision that were written.
func status(seen *observed, d decision, done outcome) v1beta1.ApiClientStatus {
	c := seen.client
	issuer := seen.instance.Issuer(c.Spec.RealmRef.Name)
	s := v1beta1.ApiClientStatus{
		ObservedGeneration:   c.Generation,
		ClientID:             c.EffectiveClientID(),
		Issuer:               issuer,
		TokenEndpoint:        issuer + oauth.TokenPath,
		ClusterTokenEndpoint: seen.instance.ClusterURL() + "/" + c.Spec.RealmRef.Name + oauth.TokenPath,
		JWKSURI:              issuer + oauth.JWKSPath,
		SecretName:           c.Status.SecretName,
		LastRotationTime:     c.Status.LastRotationTime,
		NextRotationTime:     c.Status.NextRotationTime,
		LastReleaseTime:      lastRelease(seen),
	}
	if d.accepted.Status == metav1.ConditionTrue {
		s.Grant, s.Scopes, s.Audiences = c.Status.Grant, c.Status.Scopes, c.Status.Audiences
	}
	listed := c.Status.Secrets()
	switch {
	case !done.written || d.plan.Secrets == nil:
	case !c.GeneratesSecret() && len(d.obsolete) == len(seen.owned):
		s.SecretName = ""
	case done.delivered:
		s.SecretName = c.EffectiveSecretName()
	}
	if d.grant != "" && done.written {
		s.Grant, s.Scopes, s.Audiences = d.grant, d.desired.Scopes, d.desired.Audiences
	}
	if d.desired != nil && done.written {
		listed = secretStatus(d.desired.Secrets)
		s.NextRotationTime = timeOrNil(d.plan.NextRotation)
		if replaced := lastRotation(d.plan.Secrets); !replaced.IsZero() {
			s.LastRotationTime = timeOrNil(replaced)
		}
	}
	s.Credentials = credentialStatuses(&c.Spec, listed)
	lastuse.Keep(&c.Status, &s, d.now)
	lastuse.Merge(&s, seen.reported)
	conditions := condition.NewSet(c.Status.Conditions, c.Generation, metav1.NewTime(d.now))
	conditions.Put(v1beta1.ConditionAccepted, d.accepted)
	programmed := programmed(d, done)
	conditions.Put(v1beta1.ConditionProgrammed, programmed)
	recorded := recordNow(seen, d, done)
	if weak := weakHash(recorded.Secrets); weak != nil {
		conditions.Put(v1beta1.ConditionWeaklyHashed, *weak)
	}
	if result := restored(seen, recorded.Restored); result != nil {
		conditions.Put(v1beta1.ConditionRestored, *result)
	}
	if used := oldSecretInUse(seen, recorded.Secrets, &s, d.now); used != nil {
		conditions.Put(v1beta1.ConditionOldSecretInUse, *used)
	}
	ready := summary(seen, d, programmed)
	conditions.Summarize(ready)
	s.Conditions = conditions.Conditions()
	return s
}

// lastRelease returns the time of the last release that is complete.
func lastRelease(seen *observed) *metav1.Time {
	if until := seen.releaseTime(); !until.IsZero() && !acquiredBy(seen.recordSecret, until) {
		return timeOrNil(until)
	}
	return seen.client.Status.LastReleaseTime
}

func secretStatus(secrets []record.ClientSecret) []v1beta1.CredentialStatus {
	var statuses []v1beta1.CredentialStatus
	for _, s := range secrets {
		statuses = append(statuses, v1beta1.CredentialStatus{
			Type: v1beta1.CredentialTypeSecret, Name: s.ID, State: states[s.Role], CreationTime: timeOrNil(s.CreatedAt), ExpirationTime: timeOrNil(s.ExpiresAt),
		})
	}
	return statuses
}

var states = map[record.SecretRole]v1beta1.CredentialState{
	record.RoleCurrent:  v1beta1.CredentialCurrent,
	record.RoleNext:     v1beta1.CredentialNext,
	record.RoleRetiring: v1beta1.CredentialRetiring,
}

// credentialStatuses returns all credentials for the status: the given secrets, and those that the spec lists.
func credentialStatuses(spec *v1beta1.ApiClientSpec, secrets []v1beta1.CredentialStatus) []v1beta1.CredentialStatus {
	all := slices.Clip(secrets)
	for _, k := range spec.PublicKeys {
		all = append(all, v1beta1.CredentialStatus{Type: v1beta1.CredentialTypePublicKey, Name: k.KeyID})
	}
	for _, i := range spec.Identities {
		all = append(all, v1beta1.CredentialStatus{Type: v1beta1.CredentialTypeIdentity, Name: i.Name})
	}
	return all
}

// lastRotation returns the creation time of the newest secret that replaced an older one; zero if
// there is none.
func lastRotation(secrets []record.ClientSecret) time.Time {
	for _, s := range slices.Backward(secrets) {
		if s.Successor {
			return s.CreatedAt
		}
	}
	return time.Time{}
}

func programmed(d decision, done outcome) condition.Result {
	switch {
	case d.blocked != nil:
		return *d.blocked
	case d.accepted.Status != metav1.ConditionTrue:
		return d.accepted
	case d.waitsForHash:
		return waitingForHash
	case done.state == nil:
		return condition.Progressing("Failed to write the record for the token servers; retrying. See the operator log.")
	}
	return done.state.Result()
}

// summary returns the result for the Ready condition: whether the client can get a token now.
func summary(seen *observed, d decision, programmed condition.Result) condition.Result {
	spec := &seen.client.Spec
	switch {
	case d.accepted.Status != metav1.ConditionTrue:
		return d.accepted
	case d.blocked != nil:
		return *d.blocked
	case spec.Suspend:
		return condition.NotReady(v1beta1.ReasonSuspended, "The client is suspended and cannot get tokens. Set spec.suspend to false to resume it.")
	case spec.ExpirationTime != nil && !d.now.Before(spec.ExpirationTime.Time):
		return condition.NotReady(v1beta1.ReasonExpired, "The client has expired and cannot get tokens. Set a later spec.expirationTime or delete the client.")
	case len(secretSource(seen.client).Hashed) > 0 && d.desired != nil && !d.waitsForHash && len(d.plan.Restored)+len(d.desired.Secrets)+len(d.desired.PublicKeys)+len(d.desired.Identities) == 0:
		return condition.NotReady(v1beta1.ReasonExpired, "Every secret in spec.secret.hashed has expired, so the client cannot get tokens. Add the hash of another secret.")
	case seen.credentialsErr != nil:
		return condition.Progressing(fmt.Sprintf("Failed to write Secret %q; retrying: %s", seen.client.EffectiveSecretName(), writeErrorMessage(seen.credentialsErr)))
	case d.incomplete != nil && !d.waitsForHash:
		return *d.incomplete
	case programmed.Status != metav1.ConditionTrue:
		return programmed
	}
	return realmReadiness(seen.realm)
}

// writeErrorMessage returns the API server's reason for rejecting a write. It never contains the
// written data.
func writeErrorMessage(err error) string {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		message := status.Status().Message
		return message[:min(len(message), 512)]
	}
	return "the API server is unavailable"
}

// realmReadiness returns Ready if the Realm is Ready. After a change to the Realm other than a suspension,
// its previous Ready condition is used until it is updated, because most changes do not affect clients.
func realmReadiness(realm *v1beta1.Realm) condition.Result {
	ready := meta.FindStatusCondition(realm.Status.Conditions, string(v1beta1.ConditionReady))
	switch {
	case realm.Spec.Suspend, ready != nil && ready.Reason == string(v1beta1.ReasonSuspended):
		return condition.NotReady(v1beta1.ReasonRealmSuspended, fmt.Sprintf("Realm %q is suspended, so its clients cannot get tokens. Set spec.suspend of the Realm to false to resume it.", realm.Name))
	case ready == nil || ready.Status == metav1.ConditionUnknown:
		return condition.Progressing(fmt.Sprintf("Waiting for Realm %q to become Ready.", realm.Name))
	case ready.Status == metav1.ConditionFalse:
		return condition.NotReady(v1beta1.ReasonRealmNotReady, fmt.Sprintf("Realm %q is not Ready (%s). See its status; the client is reconciled automatically when the Realm is Ready.", realm.Name, ready.Reason))
	}
	return condition.Ready("The client can get tokens.")
}

// recordNow returns the client's record, whose secrets may include some that the spec no longer lists. It is empty if
// there is none.
func recordNow(seen *observed, d decision, done outcome) *record.Client {
	switch {
	case d.releaseID:
		return &record.Client{}
	case d.desired != nil && done.written:
		return d.desired
	}
	return &seen.recorded
}

// weakHash returns the WeaklyHashed condition of a client with the given secrets, or nil if all of their
// hashes are strong.
func weakHash(secrets []record.ClientSecret) *condition.Result {
	var weak []string
	for _, s := range secrets {
		if verifier, err := clientsecret.ParseVerifier(s.Hash); err == nil && verifier.IsWeak() {
			weak = append(weak, s.ID)
		}
	}
	if len(weak) == 0 {
		return nil
	}
	return &condition.Result{
		Status: metav1.ConditionTrue, Reason: v1beta1.ReasonImportedHash,
		Message: fmt.Sprintf("These secrets are hashed with PBKDF2 or bcrypt, which are easier to brute-force than Argon2id: %s. Replace them with a generated secret, or replace their hashes with Argon2id hashes, such as the output of \"kubectl realmkeeper hash\".",
			condition.Names(weak)),
	}
}

// oldSecretInUse returns the OldSecretInUse condition of a client with the given secrets, oldest
// first, or nil if it has no old secret that expires when it is unused. s is the new status that will
// contain the condition, with the last uses.
func oldSecretInUse(seen *observed, recorded []record.ClientSecret, s *v1beta1.ApiClientStatus, now time.Time) *condition.Result {
	if !seen.client.GeneratesSecret() || seen.client.GeneratedSecret().Rotation.ExpireWhenUnused == nil ||
		len(recorded) < 2 || recorded[0].Role != record.RoleRetiring {
		return nil
	}
	old, used := recorded[0], time.Time{}
	listed := s.Credential(v1beta1.CredentialTypeSecret, old.ID)
	if listed == nil {
		return nil
	}
	if listed.LastUsedTime != nil {
		used = listed.LastUsedTime.Time
	}
	use, known := seen.uses[old.ID]
	switch {
	case !used.Before(old.ReplacedAt):
		return &condition.Result{
			Status: metav1.ConditionTrue, Reason: v1beta1.ReasonOldSecretUsed,
			Message: fmt.Sprintf("Secret %s was replaced at %s, but a workload used it at or after %s. Make all workloads load the new secret from Secret %q. "+
				"The old one expires when it has been unused for spec.secret.generated.rotation.expireWhenUnused.after, at the latest at %s.",
				old.ID, timestamp.Format(old.ReplacedAt), timestamp.Format(used), seen.client.EffectiveSecretName(), timestamp.Format(old.ExpiresAt)),
		}
	case !known, now.Sub(use.Until) > reportDelay || use.Last.After(timestamp.Latest(old.ReplacedAt, used.Add(seen.instance.Scaled(seen.instance.Usage.Resolution.Duration)))):
		return &condition.Result{
			Status: metav1.ConditionUnknown, Reason: v1beta1.ReasonUsageIncomplete,
			Message: fmt.Sprintf("Secret %s was replaced at %s. Since then, uses of it may be missing in the reports of the token servers, for example because one was killed, or because none is running. "+
				"It therefore expires later than it would otherwise, at the latest at %s.",
				old.ID, timestamp.Format(old.ReplacedAt), timestamp.Format(old.ExpiresAt)),
		}
	}
	return nil
}

// writeStatus applies the status if it has changed, and records Events for the change. It fails if
// the ApiClient is stale; otherwise the same Events would be recorded twice.
//
// New uses are written together with other changes. Without other changes, they are written only if
// the usage store grants it, because busy clients would otherwise cost too many writes.
func (r *Reconciler) writeStatus(ctx context.Context, seen *observed, d decision, done outcome) error {
	c := seen.client
	if equality.Semantic.DeepEqual(c.Status, status(seen, d, done)) && !r.Usage.Granted(c.UID) {
		return nil
	}
	seen.reported = r.Usage.Uses(c.UID)
	s := status(seen, d, done)
	if equality.Semantic.DeepEqual(c.Status, s) {
		return nil
	}
	desired, err := apply.Convert[v1beta1ac.ApiClientStatusApplyConfiguration](s)
	if err != nil {
		return err
	}
	if err := apply.Status(ctx, r.Client, v1beta1ac.ApiClient(c.Name, c.Namespace).WithResourceVersion(c.ResourceVersion).WithStatus(desired)); err != nil {
		return err
	}
	r.Usage.Written(c.UID)
	r.Events.Record(c, c.Status.Conditions, s.Conditions, rotated(&c.Status, &s), oldSecretUsed(&c.Status, &s), events.Restored(c.Status.Conditions, s.Conditions))
	return nil
}

// maxFirstStatusDelay limits how long the first status of a client waits for the token servers. They
// usually load a record within a second, so most new clients cost one status write instead of two.
const maxFirstStatusDelay = 5 * time.Second

// firstStatusDelay returns how long to wait before the first status is written; 0 if it is written
// now. Until then, the default of status.observedGeneration reports that the client is not reconciled.
func firstStatusDelay(c *v1beta1.ApiClient, done outcome, now time.Time) time.Duration {
	if c.Status.ObservedGeneration > 0 || done.state == nil || *done.state != acknowledgement.Waiting {
		return 0
	}
	return min(done.created.Add(maxFirstStatusDelay).Sub(now), maxFirstStatusDelay)
}

// hashDelay is the shortest time after which a client whose provided secret could not be hashed tries
// again. The time is random, because the clients of a namespace wait for the same place.
const hashDelay = time.Second / 2

// confirmDelay is the time after which an irreversible step is tried again that a token server holds up
// that is starting.
const confirmDelay = time.Second

// requeueAfter returns the time until the next change that doesn't trigger a watch event; zero if
// there is none. The decision may lack a change whose time has come since the reads. The client is then
// reconciled again immediately.
func requeueAfter(seen *observed, d decision) time.Duration {
	if d.waitsForHash {
		return wait.Jitter(hashDelay, 1)
	}
	if seen.unconfirmed {
		return confirmDelay
	}
	switch d.accepted.Reason {
	case v1beta1.ReasonSecretConflict, v1beta1.ReasonSecretNotFound, v1beta1.ReasonSecretNotLabeled:
		return recheckInterval
	}
	times := slices.Concat(transitionTimes(seen.client, d), seen.releaseTimes(), []time.Time{nextIndexChange(seen, d.index), seen.orphanRelease})
	return queue.After(timestamp.Next(seen.at, times...), d.now)
}

// transitionTimes returns the times at which the client's state changes without a watch event.
func transitionTimes(c *v1beta1.ApiClient, d decision) []time.Time {
	at := []time.Time{d.plan.NextRotation, d.check}
	if c.Spec.ExpirationTime != nil {
		at = append(at, c.Spec.ExpirationTime.Time)
	}
	if d.desired != nil {
		for _, s := range d.desired.Secrets {
			at = append(at, s.ExpiresAt)
		}
		if d.desired.Restored != nil {
			for _, s := range d.desired.Restored.Secrets {
				at = append(at, s.ExpiresAt)
			}
		}
	}
	return at
}
