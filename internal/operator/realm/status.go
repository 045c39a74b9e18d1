package realm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	v1beta1ac "github.com/realmkeeper/realmkeeper/api/v1beta1/applyconfiguration/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// status returns the new status of the Realm. state is nil if there is no record, or if its write failed. It is a
// pure function.
func status(realm *v1beta1.Realm, d decision, state *acknowledgement.State, instance *config.Instance) v1beta1.RealmStatus {
	issuer := instance.Issuer(realm.Name)
	s := v1beta1.RealmStatus{
		ObservedGeneration: realm.Generation,
		Issuer:             issuer,
		TokenEndpoint:      issuer + oauth.TokenPath,
		JWKSURI:            issuer + oauth.JWKSPath,
		TokenLifetime:      &v1beta1.Duration{Duration: d.policy.TokenLifetime},
		RotationInterval:   &v1beta1.Duration{Duration: realm.Spec.Signing.EffectiveRotationInterval()},
		PublishAhead:       &v1beta1.Duration{Duration: realm.Spec.Signing.EffectivePublishAhead()},
		Clients:            &d.clients,
		// These are replaced below if the record is as desired.
		StatusListURI:  realm.Status.StatusListURI,
		SigningKeys:    realm.Status.SigningKeys,
		TrustedIssuers: realm.Status.TrustedIssuers,
	}
	if d.record != nil && state != nil {
		s.StatusListURI = statusListURI(issuer, d.record.StatusLists)
		s.SigningKeys = signingKeys(d)
		s.TrustedIssuers = d.issuers
		if !d.nextKeyStep.IsZero() {
			s.NextKeyTransitionTime = &metav1.Time{Time: d.nextKeyStep}
		}
	}
	conditions := condition.NewSet(realm.Status.Conditions, realm.Generation, metav1.NewTime(d.now))
	conditions.Put(v1beta1.ConditionAccepted, d.accepted)
	if d.accepted.Status == metav1.ConditionTrue && d.blocked == nil {
		d.putResolved(conditions, realm, s.TrustedIssuers)
	}
	d.putKeysEncrypted(conditions, realm.Name, state)
	programmed := programmed(realm, d, state)
	conditions.Put(v1beta1.ConditionProgrammed, programmed)
	switch {
	case d.blocked != nil:
		conditions.Summarize(*d.blocked)
	case d.accepted.Status != metav1.ConditionTrue:
		conditions.Summarize(d.accepted)
	case realm.Spec.Suspend:
		conditions.Summarize(condition.NotReady(v1beta1.ReasonSuspended, "The realm is suspended and its clients cannot get tokens. Set spec.suspend to false to resume it."))
	case programmed.Status == metav1.ConditionTrue && len(d.undecryptedActive) > 0:
		conditions.Summarize(condition.NotReady(v1beta1.ReasonKMSUnavailable, fmt.Sprintf(
			"Some token servers cannot issue tokens, because they have not decrypted the active signing key: %s. See the logs of their containers kms-plugin and token-server.", condition.Names(d.undecryptedActive))))
	case programmed.Status == metav1.ConditionTrue:
		conditions.Summarize(condition.Ready("Clients can get tokens at " + s.TokenEndpoint))
	default:
		conditions.Summarize(programmed)
	}
	s.Conditions = conditions.Conditions()
	return s
}

// putResolved puts the conditions about what an accepted spec refers to, if it does.
func (d decision) putResolved(conditions *condition.Set, realm *v1beta1.Realm, issuers []v1beta1.TrustedIssuerStatus) {
	if len(realm.Spec.TrustedIssuers) > 0 {
		conditions.Put(v1beta1.ConditionIssuersResolved, issuersResolved(realm, issuers))
	}
	if d.exchanges != nil {
		conditions.Put(v1beta1.ConditionExchangesResolved, *d.exchanges)
	}
}

// putKeysEncrypted puts the KeysEncrypted condition, if encryption is configured or in use.
func (d decision) putKeysEncrypted(conditions *condition.Set, realm string, state *acknowledgement.State) {
	stored := encryptionOf(d.encryption.mode, d.storedKeys(state), d.encryption.undecrypted)
	stored.waiting, stored.failed = d.encryption.waiting, d.encryption.failed
	if encrypted := stored.condition(realm); encrypted != nil && d.blocked == nil {
		conditions.Put(v1beta1.ConditionKeysEncrypted, *encrypted)
	}
}

func programmed(realm *v1beta1.Realm, d decision, state *acknowledgement.State) condition.Result {
	switch {
	case d.blocked != nil:
		return *d.blocked
	case d.accepted.Status != metav1.ConditionTrue:
		return condition.NotReady(d.accepted.Reason, d.accepted.Message)
	case d.encryption.waiting && len(d.recorded) == 0:
		return *d.encryption.condition(realm.Name)
	case d.generate != "" && len(d.recorded) == 0:
		return condition.Progressing("Generating the first signing key.")
	case state == nil:
		return condition.Progressing("Failed to write the record for the token servers; retrying. See the operator log.")
	case *state != acknowledgement.NoServer && signingkey.ActiveID(d.record.Keys) == "":
		return condition.Progressing("Waiting for every live token server to load the first signing key.")
	}
	return state.Result()
}

// storedKeys returns the keys in the record. state is nil if there is no record, or if its write failed.
func (d decision) storedKeys(state *acknowledgement.State) []signingkey.Key {
	if d.record != nil && state != nil {
		return d.record.Keys
	}
	return d.recorded
}

func signingKeys(d decision) []v1beta1.SigningKeyStatus {
	keys := make([]v1beta1.SigningKeyStatus, 0, len(d.record.Keys))
	for i := range d.record.Keys {
		k := &d.record.Keys[i]
		key := v1beta1.SigningKeyStatus{
			KeyID:        k.ID,
			Algorithm:    v1beta1.SigningAlgorithm(k.Algorithm),
			State:        v1beta1.SigningKeyState(k.State),
			CreationTime: metav1.NewTime(k.CreatedAt),
		}
		if !k.ActiveAt.IsZero() {
			key.ActivationTime = &metav1.Time{Time: k.ActiveAt}
		}
		if at := d.policy.RemoveAt(k); !at.IsZero() {
			key.RemovalTime = &metav1.Time{Time: at}
		}
		keys = append(keys, key)
	}
	return keys
}

// writeStatus applies the status if it changed and records Events for the change. It fails with a
// conflict if realm is not the latest version; otherwise the same Events would be recorded twice.
func (r *Reconciler) writeStatus(ctx context.Context, realm *v1beta1.Realm, s v1beta1.RealmStatus) error {
	if equality.Semantic.DeepEqual(realm.Status, s) {
		return nil
	}
	desired, err := apply.Convert[v1beta1ac.RealmStatusApplyConfiguration](s)
	if err != nil {
		return err
	}
	if err := apply.Status(ctx, r.Client, v1beta1ac.Realm(realm.Name).WithResourceVersion(realm.ResourceVersion).WithStatus(desired)); err != nil {
		return err
	}
	failed, resolved := issuersChanged(realm, s.TrustedIssuers)
	r.Events.Record(realm, realm.Status.Conditions, s.Conditions, rotated(&realm.Status, &s), failed, resolved)
	return nil
}

// rotated returns the Event for a change to a new active key, or nil if the active key did not
// change. It is a pure function.
func rotated(before, after *v1beta1.RealmStatus) *events.Event {
	old, current := activeKey(before), activeKey(after)
	if old == nil || current == nil || old.KeyID == current.KeyID {
		return nil
	}
	return events.Rotation(v1beta1.EventSigningKeyRotated, fmt.Sprintf(
		"Signing key rotated to %s (%s) from %s (%s).", current.KeyID, current.Algorithm, old.KeyID, old.Algorithm))
}

func activeKey(s *v1beta1.RealmStatus) *v1beta1.SigningKeyStatus {
	for i := range s.SigningKeys {
		if s.SigningKeys[i].State == v1beta1.SigningKeyActive {
			return &s.SigningKeys[i]
		}
	}
	return nil
}

// countWait returns how long the operator waits before it writes a new status. It writes immediately that a Realm
// has its first client or no client any more, because a count above 0 protects the Realm from deletion. Other
// changes of the count wait, unless the status also differs in something else.
func countWait(realm *v1beta1.Realm, after v1beta1.RealmStatus, now time.Time) time.Duration {
	before := realm.Status
	if none(before.Clients) || none(after.Clients) {
		return 0
	}
	before.Clients = after.Clients
	if !equality.Semantic.DeepEqual(before, after) {
		return 0
	}
	return apply.StatusPause(realm, now)
}

// report writes the status that follows from a decision, whose write failed with err unless it is nil, and returns
// when to reconcile again.
func (r *Reconciler) report(ctx context.Context, req ctrl.Request, seen *observed, d decision, err error) (ctrl.Result, error) {
	r.Issuers.Want(req.Name, d.fetchIssuers)
	if apply.IsStale(err) {
		return ctrl.Result{}, err // The decision may be based on stale data.
	}
	var contentState *acknowledgement.State
	if err == nil && seen.record != nil {
		if d.put != nil {
			r.follow(req, seen) // The keys wait for this version.
		}
		version := seen.record.ResourceVersion
		if d.record != nil {
			version = cmp.Or(d.record.Basis.ContentVersion, version)
		}
		contentState = new(r.Tracker.State(acknowledgement.Record{Name: seen.record.Name, Version: version}))
	}
	r.measure(req.Name, d, contentState, err)
	desired := status(seen.realm, d, contentState, r.Instance)
	held := countWait(seen.realm, desired, d.now)
	if held == 0 {
		err = errors.Join(err, r.writeStatus(ctx, seen.realm, desired))
	}
	return ctrl.Result{RequeueAfter: requeueAfter(seen, d, held)}, err
}

// confirmDelay is the time after which a step of the keys is tried again that a token server holds up.
const confirmDelay = time.Second

// requeueAfter returns the time until the next change that doesn't trigger a watch event; zero if there is
// none. held is how long the write of the number of clients waits.
func requeueAfter(seen *observed, d decision, held time.Duration) (after time.Duration) {
	if seen.unconfirmed {
		after = confirmDelay
	}
	for _, wait := range []time.Duration{d.nextKeyStep.Sub(d.now), d.nextList.Sub(d.now), seen.retryAfter, held} { // Zero times are in the past.
		if wait > 0 && (after == 0 || wait < after) {
			after = wait
		}
	}
	return after
}

// measure counts a rotation, and sets the time of the next one and how keys are stored.
func (r *Reconciler) measure(realm string, d decision, state *acknowledgement.State, applyErr error) {
	if d.rotates {
		r.Metrics.Rotation(metrics.SigningKey, applyErr)
	}
	r.Metrics.NextKeyRotation(realm, d.nextRotation)
	plaintext, encrypted := 0, map[string]int{}
	for _, key := range d.storedKeys(state) {
		switch {
		case key.Sealed() != nil:
			encrypted[key.Sealed().KeyID]++
		case key.InPlaintext():
			plaintext++
		}
	}
	r.Metrics.SigningKeys(realm, plaintext, encrypted)
}
