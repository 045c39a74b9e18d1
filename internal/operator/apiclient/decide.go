package apiclient

import (
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/statusindex"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
)

// decide returns the desired state for the observed state, or what it lacks. It is a pure function, and fails only
// with the errors of secrets.Make.
func decide(seen *observed, now time.Time, random io.Reader) (decision, error) {
	d := decision{now: now}
	if d.lagging = seen.lagging(); d.lagging != "" {
		d.lacks = lacksLive
		return d, nil
	}
	d.accepted, d.obsoleteSubjects = accepted(seen), obsoleteSubjects(seen)
	d.releaseID = acquiredBy(seen.recordSecret, seen.releaseTime())
	d.waitsForHash = mustHash(seen, d.accepted)
	var err error
	switch {
	case (d.releaseID || len(d.obsoleteSubjects) > 0 && seen.written) && !seen.live: // What is given up can't be had back.
		d.lacks |= lacksLive
	case d.releaseID:
	case seen.unreadable != nil:
		d.blocked, d.waitsForHash = seen.unreadable, false
	case d.waitsForHash && !seen.hashTried:
		d.lacks |= lacksHash
	case d.accepted.Status != metav1.ConditionTrue:
		d.reject(seen)
	default:
		err = d.accept(seen, random)
	}
	d.order(seen)
	return d, err
}

// acquire adds what an accepted client lacks to acquire a client ID that it chose itself, subjects, or an index.
func (d *decision) acquire(seen *observed) {
	if seen.recordSecret == nil && seen.client.Spec.ClientID != "" && !seen.live && !seen.realmLive {
		d.lacks |= lacksRealm
	}
	if len(seen.unknownSubjects()) > 0 {
		d.lacks |= lacksSubjects | lacksRealm
	}
	if statusindex.NeedsFree(seen.index) {
		if seen.recordSecret != nil && !seen.live && !seen.recordLive {
			d.lacks |= lacksRecord
		}
		if !seen.searched {
			d.lacks |= lacksIndex
		}
	}
}

// accept decides on an accepted client.
func (d *decision) accept(seen *observed, random io.Reader) error {
	now := d.now
	if d.acquire(seen); d.lacks != 0 {
		return nil
	}
	plan, err := secrets.Make(secretFacts(seen), wantedSecret(seen), now, random)
	switch {
	case err != nil:
		return err
	case plan.Inconclusive || seen.mayBeDeleted():
		d.lacks |= lacksLive
	case plan.ConfirmUses:
		d.lacks |= lacksUses
	case plan.Step.NeedsConfirmation() && !seen.confirmed:
		d.lacks |= lacksConfirmation
	}
	d.index = statusindex.Make(seen.index)
	if d.incomplete = d.waiting(seen, plan); d.waitsWithoutRecord(seen) {
		d.blocked = d.incomplete
		return nil
	}
	d.plan, d.check = plan, nextCheck(plan, seen.instance, now)
	coverage := covered(&seen.request)
	d.grant = coverage.Grant.Name
	d.desired = newRecord(seen, coverage, plan)
	d.subjects = wantedSubjects(seen)
	d.desired.StatusIndex, d.desired.IndexSerial = d.index.Current, d.index.Serial
	d.desired.Disabled = d.desired.Disabled || d.waitsForHash && seen.recorded.Disabled || d.index.Waiting != ""
	setBasis(seen, d.desired, plan.KeepsSecret)
	d.obsolete = obsolete(seen, plan)
	if !seen.caMissing && plan.Current.Plaintext != "" {
		d.credentials = newCredentials(seen, plan.Current, plan.Next)
	}
	d.confirm(seen)
	return nil
}

// confirm adds what the API server must confirm before the desired state is written, because caches may lag.
func (d *decision) confirm(seen *observed) {
	if seen.mayStayDisabled(d.desired) || d.index.Waiting != "" && seen.mayStayEnabled(v1beta1.ReasonStatusIndexUnavailable) {
		d.lacks |= lacksLive
	}
	if seen.mayRevertSecrets(d) {
		d.lacks |= lacksRecord
	}
}

// order lists the writes, unless the decision lacks something. Token servers ignore a subject until the client's record
// lists it, so a subject is acquired before the record lists it, and given up after the record no longer lists it. An
// index is acquired before the record has it, too.
//
// The record comes before the credentials Secret, so that a restriction never waits for the Secret. Only for a new
// client, the Secret comes first, and the record follows in the next step. A value is always in the Secret one step
// before its verifier is in the record.
func (d *decision) order(seen *observed) {
	obsoleteIndexes := d.retire(seen)
	if d.lacks != 0 {
		return
	}
	if d.releaseID {
		d.writes = append(d.writes, releaseClientID{})
	}
	secretFirst := seen.recordSecret == nil && d.credentials != nil && d.plan.Step == secrets.StepWriteFirst
	if d.desired != nil && !secretFirst {
		for _, body := range d.subjects {
			d.writes = append(d.writes, holdSubject{body})
		}
		if d.index.Create != nil {
			d.writes = append(d.writes, holdIndex{*d.index.Create})
		}
		d.writes = append(d.writes, putRecord{d.desired})
	}
	d.writes = append(d.writes, obsoleteIndexes...)
	if seen.live { // Otherwise, the next step gives them up. The record must not wait for live reads.
		for _, secret := range d.obsoleteSubjects {
			d.writes = append(d.writes, giveUpSubject{secret})
		}
	}
	if d.credentials != nil && seen.credentialsErr == nil {
		d.writes = append(d.writes, putCredentials{d.credentials})
	}
	for i := range d.obsolete {
		d.writes = append(d.writes, deleteCredentials{&d.obsolete[i]})
	}
}

// retire returns the writes that retire or release the indexes that the client's record doesn't have any longer.
func (d *decision) retire(seen *observed) (writes []write) {
	retire, release, next := statusindex.Obsolete(seen.index, seen.at)
	if (len(retire)+len(release) > 0 || !next.IsZero()) && !seen.retentionKnown {
		d.lacks |= lacksRetention
	}
	for _, index := range retire {
		writes = append(writes, retireIndex{index})
	}
	for _, index := range release {
		writes = append(writes, releaseIndex{index.Index})
	}
	return writes
}

// continues reports whether another decision follows the writes immediately: a further step of the client's secret,
// one without the credentials Secret, because it could not be written, one that retires the index that the client's
// record had, or one that gives up subjects.
func (d *decision) continues(seen *observed) bool {
	retire, _, _ := statusindex.Obsolete(seen.index, seen.at)
	if len(d.obsoleteSubjects) > 0 && !seen.live {
		return true
	}
	return d.plan.Unfinished || seen.credentialsErr != nil && !seen.replanned || len(retire) > 0
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
	case seen.caMissing && seen.client.GeneratesSecret() && plan.Current.Plaintext == "":
		result := condition.Progressing(fmt.Sprintf(
			"Waiting for the certificate authority of the token servers in Secret %q in the system namespace. If the Secret stays missing, see the operator log.", authority.SecretName))
		return &result
	case d.waitsForHash && len(plan.Restored) == 0:
		return new(waitingForHash)
	}
	return nil
}

// reject disables the record of a client that is not Accepted. A client whose ID another one holds has no
// record, so its credentials Secret, which was created before the conflict was known, is deleted.
func (d *decision) reject(seen *observed) {
	if seen.mayStayEnabled(d.accepted.Reason) {
		d.lacks |= lacksLive
		return
	}
	if seen.recordSecret != nil {
		current := seen.recorded
		current.Disabled = true
		current.Secrets = secrets.Valid(current.Secrets, d.now)
		current.Restored = seen.restoredWith(secrets.Valid(seen.restoredSecrets(), d.now))
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
		if len(d.obsolete) > 0 && !seen.live {
			d.lacks |= lacksLive
		}
	}
}

// obsolete returns the owned credentials Secrets that the client no longer needs. If its secret is
// generated, a credentials Secret is obsolete if it has a different name. Otherwise, it is obsolete
// if it contains no valid secret. One without data, because it is too large for the cache or contains no value, stays until no
// generated secret is valid.
func obsolete(seen *observed, p secrets.Plan) []corev1.Secret {
	return slices.DeleteFunc(slices.Clone(seen.owned), func(s corev1.Secret) bool {
		if seen.client.GeneratesSecret() {
			return s.Name == seen.client.EffectiveSecretName()
		}
		if s.Data == nil {
			return slices.ContainsFunc(p.Secrets, func(valid record.ClientSecret) bool { return valid.Source == "" })
		}
		return !p.Obsolete(generatedValues(&s))
	})
}
