package realm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
	"github.com/realmkeeper/realmkeeper/internal/operator/trustedissuers"
)

// issuerStatus returns the observed state of the trusted issuers in the record. Until an operator
// that has just become the leader has a result of its own, it keeps what the status says about the
// same source.
func issuerStatus(realm *v1beta1.Realm, recorded []record.Issuer, before []record.Issuer, fetched map[string]trustedissuers.State) []v1beta1.TrustedIssuerStatus {
	var all []v1beta1.TrustedIssuerStatus
	for _, issuer := range recorded {
		s := v1beta1.TrustedIssuerStatus{Name: issuer.Name}
		for _, key := range issuer.Keys {
			s.KeyIDs = append(s.KeyIDs, key.ID())
		}
		s.KeyIDs = slices.Compact(s.KeyIDs) // keys are sorted by ID
		state := fetched[issuer.Name]
		if state.Err != "" {
			s.FirstFailureTime, s.Message = &metav1.Time{Time: state.FailingSince.Truncate(time.Second)}, string(state.Err.Public())
		}
		if state.Keys == nil && slices.ContainsFunc(before, func(b record.Issuer) bool { return b.Name == issuer.Name && b.Source == issuer.Source }) {
			keepFailure(&s, statusOf(realm.Status.TrustedIssuers, issuer.Name))
		}
		all = append(all, s)
	}
	return all
}

// keepFailure keeps the start of a failure, and its message if there is no newer one.
func keepFailure(s *v1beta1.TrustedIssuerStatus, before v1beta1.TrustedIssuerStatus) {
	if before.FirstFailureTime == nil {
		return
	}
	if s.FirstFailureTime == nil {
		s.Message = before.Message
	}
	if s.FirstFailureTime == nil || before.FirstFailureTime.Before(s.FirstFailureTime) {
		s.FirstFailureTime = before.FirstFailureTime
	}
}

// statusOf returns the status of an issuer, or an empty one.
func statusOf(issuers []v1beta1.TrustedIssuerStatus, name string) v1beta1.TrustedIssuerStatus {
	for _, s := range issuers {
		if s.Name == name {
			return s
		}
	}
	return v1beta1.TrustedIssuerStatus{}
}

// issuersResolved returns the result for the IssuersResolved condition.
func issuersResolved(realm *v1beta1.Realm, issuers []v1beta1.TrustedIssuerStatus) condition.Result {
	var unsupported, failing, waiting []string
	for i := range realm.Spec.TrustedIssuers {
		spec := &realm.Spec.TrustedIssuers[i]
		switch s := statusOf(issuers, spec.Name); {
		case s.FirstFailureTime != nil:
			failing = append(failing, failure(spec, s))
		case s.Message != "":
			unsupported = append(unsupported, fmt.Sprintf("spec.trustedIssuers: %q cannot be used, so its tokens are rejected: %s", spec.Name, s.Message))
		case len(s.KeyIDs) == 0:
			waiting = append(waiting, spec.Name)
		}
	}
	switch {
	case len(unsupported) > 0:
		return condition.NotReady(v1beta1.ReasonTrustedIssuerNotSupported, strings.Join(append(unsupported, failing...), " "))
	case len(failing) > 0:
		return condition.NotReady(v1beta1.ReasonIssuerNotResolved, strings.Join(failing, " "))
	case len(waiting) > 0:
		return condition.Progressing("Getting the keys of: " + strings.Join(waiting, ", "))
	}
	return condition.Result{Status: metav1.ConditionTrue, Reason: v1beta1.ReasonIssuersResolved, Message: "Token servers have the keys of all trusted issuers."}
}

// failure describes why an issuer can't be resolved, what that means, and what to do.
func failure(spec *v1beta1.TrustedIssuer, s v1beta1.TrustedIssuerStatus) string {
	consequence := "Token servers keep using the last keys."
	if len(s.KeyIDs) == 0 {
		consequence = "Its tokens are rejected until the operator has its keys."
	}
	return fmt.Sprintf("Failed to get the keys of issuer %q (%s) since %s: %s. %s %s",
		spec.Name, spec.Issuer, s.FirstFailureTime.UTC().Format(time.RFC3339), s.Message, consequence, trustedissuers.FetchError(s.Message).Remedy())
}

// issuersChanged returns the Events for issuers that can no longer be resolved, and for those that
// can be resolved again; nil if there are none. One Event names all of them, because Events for the
// same version of an object are merged.
func issuersChanged(realm *v1beta1.Realm, after []v1beta1.TrustedIssuerStatus) (failed, resolved *events.Event) {
	var failures, recoveries []string
	for i := range realm.Spec.TrustedIssuers {
		spec := &realm.Spec.TrustedIssuers[i]
		now, before := statusOf(after, spec.Name), statusOf(realm.Status.TrustedIssuers, spec.Name)
		switch {
		case now.FirstFailureTime != nil && before.FirstFailureTime == nil:
			failures = append(failures, fmt.Sprintf("Failed to get the keys of issuer %q (%s): %s.", spec.Name, spec.Issuer, now.Message))
		case len(now.KeyIDs) > 0 && now.FirstFailureTime == nil && before.FirstFailureTime != nil:
			recoveries = append(recoveries, fmt.Sprintf("Got the keys of issuer %q (%s) again.", spec.Name, spec.Issuer))
		}
	}
	if len(failures) > 0 {
		failed = events.Issuer(v1beta1.EventIssuerNotResolved, strings.Join(failures, " "))
	}
	if len(recoveries) > 0 {
		resolved = events.Issuer(v1beta1.EventIssuerResolved, strings.Join(recoveries, " "))
	}
	return failed, resolved
}
