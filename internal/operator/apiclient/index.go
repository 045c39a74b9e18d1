package apiclient

import (
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/statusindex"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// tokensValidAfter returns the time before which the client's tokens are revoked; zero if none are.
func tokensValidAfter(seen *observed) time.Time {
	var after time.Time
	if t := seen.client.Spec.TokensValidAfterTime; t != nil {
		after = t.UTC()
	}
	if restored := seen.recorded.Restored; restored != nil {
		after = timestamp.Latest(after, restored.TokensValidAfter)
	}
	return after
}

// waitingForIndex returns why the client gets no index; nil if it gets or needs none.
func waitingForIndex(seen *observed, plan statusindex.Plan) *condition.Result {
	_, _, next := statusindex.Obsolete(seen.index, seen.at)
	switch plan.Waiting {
	case statusindex.ClientFull:
		return notReady(v1beta1.ReasonStatusIndexUnavailable, "spec.tokensValidAfterTime was changed so often that tokens which have not expired refer to %d earlier indexes in the status list of Realm %q. The client cannot get tokens until %s. Change it less often; to stop the client, set spec.suspend.",
			statusindex.MaxRetired, seen.realm.Name, soon(next, "the operator has retired one of them"))
	case statusindex.NamespaceFull:
		return notReady(v1beta1.ReasonStatusIndexUnavailable, "So many clients of namespace %q were deleted, or had their tokens revoked, that its clients cannot get another index in the status list of Realm %q until %s. The limit is %d more than twice the number of clients in the namespace.",
			seen.client.Namespace, seen.realm.Name, soon(seen.namespaceRelease, "tokens have expired"), statusindex.PerNamespace)
	case statusindex.RealmFull:
		return notReady(v1beta1.ReasonStatusIndexUnavailable, "The status list of Realm %q has no free index, because it can have at most %d. Delete clients that are not used, or create the client in another realm. The operator rechecks every minute.",
			seen.realm.Name, record.MaxIndexes)
	}
	return nil
}

func soon(at time.Time, otherwise string) string {
	if at.IsZero() {
		return otherwise
	}
	return timestamp.Format(at)
}

// nextIndexChange returns the time at which the index of the client can change without an event.
func nextIndexChange(seen *observed, plan statusindex.Plan) time.Time {
	_, _, next := statusindex.Obsolete(seen.index, seen.at)
	switch plan.Waiting {
	case statusindex.NamespaceFull, statusindex.RealmFull:
		return seen.at.Add(recheckInterval) // An index of another client must be released.
	}
	return next
}
