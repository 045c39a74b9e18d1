package apiclient

import (
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/statusindex"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
)

// decision is the desired state of everything that the controller writes for an ApiClient.
type decision struct {
	// accepted is the result for the Accepted condition.
	accepted condition.Result
	// blocked is the reason why nothing is written despite an accepted spec; otherwise nil.
	blocked *condition.Result
	// incomplete is what the client's record or secret waits for; nil if nothing.
	incomplete *condition.Result
	// desired is the desired record; nil leaves it unchanged, even if there is none.
	desired *record.Client
	// grant is the name of the grant that covers the client; empty if the client is not accepted.
	grant string
	// subjects are the records of the subjects that the client holds or acquires. obsoleteSubjects are
	// the records of the subjects that it gives up.
	subjects         []record.Subject
	obsoleteSubjects []*corev1.Secret
	// index is the plan for the client's index in the status lists of the realm.
	index statusindex.Plan
	// plan is the plan for the client's secrets. Its secrets are already included in record.
	plan secrets.Plan
	// check is the time at which an old secret may end because it is unused; zero if there is none.
	check time.Time
	// inconclusive reports whether the caches may lag. Nothing is written, and the decision is taken again
	// with objects from the API server.
	inconclusive bool
	// hash reports whether the provided secret must be hashed. Until then, the client keeps the
	// secrets that it has.
	hash bool
	// credentials is the desired credentials Secret; nil leaves it unchanged.
	credentials *corev1ac.SecretApplyConfiguration
	// obsolete are the owned credentials Secrets to delete.
	obsolete []corev1.Secret
	// release means that the record is deleted, so that another client can use the client ID.
	release bool
}

// decide returns the desired state for the observed state. It is a pure function and fails only if
// the random source does.
func decide(seen *observed, now time.Time, random io.Reader) (decision, error) {
	d := decision{accepted: accepted(seen), obsoleteSubjects: obsoleteSubjects(seen)}
	if d.releases(seen) {
		return d, nil
	}
	if d.blocked = seen.unreadable; d.blocked != nil {
		return d, nil
	}
	d.hash = mustHash(seen, d.accepted)
	if d.accepted.Status != metav1.ConditionTrue {
		d.reject(seen, now)
		return d, nil
	}
	plan, err := secrets.Make(secretFacts(seen), wantedSecret(seen), now, random)
	if err != nil {
		return decision{}, err
	}
	if d.inconclusive = plan.Inconclusive || seen.mayBeDeleted(); d.inconclusive {
		return d, nil
	}
	d.index = statusindex.Make(seen.index)
	if d.incomplete = d.waiting(seen, plan); d.waitsWithoutRecord(seen) {
		d.blocked = d.incomplete
		return d, nil
	}
	d.plan, d.check = plan, nextCheck(plan, seen.instance, now)
	coverage := covered(&seen.request)
	d.grant = coverage.grant.Name
	d.desired = newRecord(seen, coverage, plan)
	d.subjects = wantedSubjects(seen)
	d.desired.StatusIndex, d.desired.IndexSerial = d.index.Current, d.index.Serial
	d.desired.Disabled = d.desired.Disabled || d.hash && seen.recorded.Disabled || d.index.Waiting != ""
	if d.inconclusive = seen.mayStayDisabled(d.desired); d.inconclusive {
		return d, nil
	}
	setBasis(seen, d.desired, plan.KeepsSecret)
	d.obsolete = obsolete(seen, plan)
	if !seen.authorityMissing && plan.Current.Plaintext != "" {
		d.credentials = newCredentials(seen, plan.Current, plan.Next)
	}
	return d, nil
}

// releases reports whether the client releases its client ID, or whether the API server must say so first.
func (d *decision) releases(seen *observed) bool {
	until := seen.releasedUntil()
	if d.inconclusive = seen.mustRelease(until) && !seen.live; d.inconclusive {
		return true
	}
	d.release = heldUntil(seen.recordSecret, until)
	return d.release
}

// waitsWithoutRecord reports whether a new client gets no record yet. One that holds too many indexes needs a
// record, which gives up those that it never had.
func (d *decision) waitsWithoutRecord(seen *observed) bool {
	return d.incomplete != nil && seen.recordSecret == nil && d.index.Waiting != statusindex.ClientFull
}

// waiting returns what an accepted client waits for before its record and its secret are complete; nil if
// nothing.
func (d *decision) waiting(seen *observed, plan secrets.Plan) *condition.Result {
	switch {
	case d.index.Waiting != "":
		return waitingForIndex(seen, d.index)
	case seen.authorityMissing && seen.client.GeneratesSecret() && plan.Current.Plaintext == "":
		result := condition.Progressing(fmt.Sprintf(
			"Waiting for the certificate authority of the token servers in Secret %q in the system namespace. If the Secret stays missing, see the operator log.", authority.SecretName))
		return &result
	case d.hash && len(plan.Restored) == 0:
		return new(waitingForHash)
	}
	return nil
}

// reject disables the record of a client that is not Accepted. A client whose ID another one holds has no
// record, so its credentials Secret, which was created before the conflict was known, is deleted.
func (d *decision) reject(seen *observed, now time.Time) {
	if d.inconclusive = seen.mayStayEnabled(d.accepted.Reason); d.inconclusive {
		return
	}
	if seen.recordSecret != nil {
		current := seen.recorded
		current.Disabled = true
		current.Secrets = secrets.Valid(current.Secrets, now)
		current.Restored = seen.restoredWith(secrets.Valid(seen.restoredSecrets(), now))
		if seen.index.CurrentLost {
			current.StatusIndex = nil // It is another client's, whose entry must not depend on this one.
		}
		setBasis(seen, &current, true)
		d.desired = &current
		return
	}
	if d.accepted.Reason == v1beta1.ReasonClientIDConflict {
		d.obsolete = slices.Clone(seen.owned)
		if seen.credentials != nil && isOwned(seen.credentials, seen.client) {
			d.obsolete = append(slices.DeleteFunc(d.obsolete, func(s corev1.Secret) bool { return s.UID == seen.credentials.UID }), *seen.credentials)
		}
		d.inconclusive = len(d.obsolete) > 0 && !seen.live
	}
}

// obsolete returns the owned credentials Secrets that the client no longer needs. If its secret is
// generated, a credentials Secret is obsolete if it has a different name. Otherwise, it is obsolete
// if it contains no valid secret.
func obsolete(seen *observed, p secrets.Plan) []corev1.Secret {
	return slices.DeleteFunc(slices.Clone(seen.owned), func(s corev1.Secret) bool {
		if seen.client.GeneratesSecret() {
			return s.Name == seen.client.EffectiveSecretName()
		}
		return !p.Obsolete(generatedValues(&s))
	})
}

// recheckInterval is the period after which a conflicting or unreadable Secret is read again. Such
// a Secret lacks the label that the operator watches, so the operator receives no events for it.
const recheckInterval = time.Minute
