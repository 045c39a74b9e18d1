package apiclient

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/statusindex"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/protocol/statuslist"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// indexSet is what the client's index in the status lists of its realm depends on.
type indexSet struct {
	// index are the facts for the plan.
	index statusindex.Facts
	// records are the records of the held indexes.
	records map[int]*corev1.Secret
	// namespaceRelease is the time at which the next index of the namespace is released; zero if it isn't full.
	namespaceRelease time.Time
}

// tokensValidAfter returns the time before which the client's tokens are revoked; zero if none are.
func tokensValidAfter(seen *observed, restored *record.Restored) time.Time {
	var after time.Time
	if t := seen.client.Spec.TokensValidAfterTime; t != nil {
		after = t.UTC()
	}
	if restored != nil {
		after = timestamp.Latest(after, restored.TokensValidAfter)
	}
	return after
}

// gatherIndexes reads the indexes that the client holds.
func (r *Reconciler) gatherIndexes(ctx context.Context, seen *observed) error {
	seen.indexSet = indexSet{records: map[int]*corev1.Secret{}}
	if seen.realm == nil {
		return nil
	}
	seen.index = statusindex.Facts{
		Served:  seen.realm.Spec.StatusList.Enabled || seen.realm.Status.StatusListURI != "",
		Current: seen.recorded.StatusIndex, Serial: seen.recorded.IndexSerial, Free: statusindex.None,
		ValidAfter: tokensValidAfter(seen, seen.recorded.Restored), Suspended: seen.client.Spec.Suspend,
	}
	if !seen.index.Served && seen.index.Current != nil {
		// The status can be older than the record.
		lists, err := r.statusLists(ctx, seen.realm.UID)
		if err != nil {
			return err
		}
		seen.index.Served = lists != nil && lists.Number != 0
	}
	held := recordstore.OfKind(record.KindIndex, seen.own)
	for _, secret := range held {
		seen.hold(secret)
	}
	if err := r.gatherCurrentIndex(ctx, seen); err != nil {
		return err
	}
	return r.gatherHold(ctx, seen)
}

// gatherFreeIndex looks for a free index if an accepted client needs one. Another client acquires nothing.
func (r *Reconciler) gatherFreeIndex(ctx context.Context, seen *observed, accepted bool) error {
	if !accepted || !statusindex.NeedsFree(seen.index) {
		return nil
	}
	if err := r.confirmRecord(ctx, seen); err != nil {
		return err
	}
	var err error
	if seen.index.NamespaceFull, err = r.namespaceFull(ctx, seen); err != nil {
		return err
	}
	seen.index.Free, err = r.freeIndex(seen.realm)
	return err
}

// statusLists returns the status lists in a realm's record; nil if it has none or can't be read.
func (r *Reconciler) statusLists(ctx context.Context, realm types.UID) (*record.StatusLists, error) {
	secret, err := r.Records.Get(ctx, record.RealmSecretName(realm))
	if err != nil || secret == nil {
		return nil, err
	}
	body, _ := record.ReadRealm(secret) // The Realm's status has the error.
	return body.StatusLists, nil
}

// confirmRecord checks that the cache has the latest record of a client that needs another index. Otherwise, an
// operator whose cache lags behind its own write would acquire an index that the client never uses.
//
// Errors: errInconclusive.
func (r *Reconciler) confirmRecord(ctx context.Context, seen *observed) error {
	if seen.live || seen.recordSecret == nil {
		return nil
	}
	latest, err := r.Records.Live(ctx, seen.recordSecret.Name)
	if err != nil {
		return err
	}
	if latest == nil || latest.ResourceVersion != seen.recordSecret.ResourceVersion {
		return fmt.Errorf("%w: record %s has changed", errInconclusive, seen.recordSecret.Name)
	}
	return nil
}

// hold adds an index that the client holds. It ignores those of other objects and unreadable records.
func (seen *observed) hold(secret *corev1.Secret) {
	body, err := record.ReadIndex(secret)
	if err == nil && body.UID == seen.client.UID && body.RealmUID == seen.realm.UID {
		seen.index.Held = append(seen.index.Held, body)
		seen.records[body.Index] = secret
	}
}

// drop removes an index that the client doesn't hold any longer, or whose record has changed.
func (seen *observed) drop(index int) {
	seen.index.Held = slices.DeleteFunc(seen.index.Held, func(h record.Index) bool { return h.Index == index })
	delete(seen.records, index)
}

// gatherCurrentIndex reads the record of the client's index if the cache doesn't contain it.
func (r *Reconciler) gatherCurrentIndex(ctx context.Context, seen *observed) error {
	if seen.index.Current == nil || seen.records[seen.index.Current.Index] != nil {
		return nil
	}
	secret, err := r.Records.Get(ctx, record.IndexSecretName(seen.realm.UID, seen.index.Current.Index))
	if err != nil || secret == nil {
		return err
	}
	seen.hold(secret)
	seen.index.CurrentLost = seen.records[seen.index.Current.Index] == nil
	return nil
}

// gatherHold reads how long the client's obsolete indexes stay retired, if there are any.
func (r *Reconciler) gatherHold(ctx context.Context, seen *observed) error {
	retire, release, next := statusindex.Obsolete(seen.index, seen.at)
	if len(retire)+len(release) == 0 && next.IsZero() {
		return nil
	}
	var err error
	seen.index.Hold, err = r.indexHold(ctx, seen.realm.UID)
	return err
}

// maxTTLSeconds is the limit of the API, for a realm whose record can't be read.
const maxTTLSeconds = 600

// indexHold returns how long an index of a realm stays retired: until the last token that refers to it, and
// the last list in which it isn't INVALID, have expired. A server that hasn't loaded a change for longer than
// signingkey.Skew doesn't count any more, and verifiers can have slow clocks.
func (r *Reconciler) indexHold(ctx context.Context, realm types.UID) (time.Duration, error) {
	secret, err := r.Records.Get(ctx, record.RealmSecretName(realm))
	if err != nil || secret == nil {
		return 0, err // Without the keys, no token is valid.
	}
	body, err := record.ReadRealm(secret)
	if err != nil {
		body.Keys = []signingkey.Key{{LongestLifetime: signingkey.MaxLifetime}} // The Realm's status has the error.
		body.StatusLists = &record.StatusLists{TTLSeconds: maxTTLSeconds}
	}
	hold := signingkey.LongestLifetime(body.Keys) + 2*r.Instance.Scaled(signingkey.Skew)
	if lists := body.StatusLists; lists != nil {
		ttl := time.Duration(lists.TTLSeconds) * time.Second
		hold += r.Instance.Scaled(statuslist.Lifetime(r.Instance.TokenServer.MaxStaleness.Duration, ttl))
	}
	return hold, nil
}

// namespaceFull reports whether too many indexes of the client's namespace are retired. Otherwise, a tenant
// who deletes and creates clients could use up the indexes of a realm.
func (r *Reconciler) namespaceFull(ctx context.Context, seen *observed) (bool, error) {
	namespace := seen.client.Namespace
	number, err := r.Records.CountRetired(namespace)
	if err != nil || number < statusindex.PerNamespace || number < statusindex.PerNamespace+2*len(r.requests(ctx, client.InNamespace(namespace))) {
		return false, err
	}
	retired, err := r.Records.RetiredIndexes(namespace)
	if err != nil {
		return false, err
	}
	hold, err := r.indexHold(ctx, seen.realm.UID)
	if err != nil {
		return false, err
	}
	for _, secret := range retired {
		if body, err := record.ReadIndex(secret); err == nil {
			seen.namespaceRelease = timestamp.Earliest(seen.namespaceRelease, body.RetiredAt.Add(hold))
		}
	}
	return true, nil
}

const (
	// minIndexes is the smallest number of indexes from which a client's is chosen. It hides how few clients
	// a realm has.
	minIndexes = statuslist.MinEntries
	// indexTries is how many random indexes are tried in each range.
	indexTries = 64
)

// freeIndex returns a random index that is free according to the cache, or statusindex.None. It chooses below
// the smallest power of two that is at least the number of clients, and doubles this range while it is too full.
func (r *Reconciler) freeIndex(realm *v1beta1.Realm) (int, error) {
	size := minIndexes
	if clients := realm.Status.Clients; clients != nil && *clients > minIndexes {
		size = min(1<<bits.Len32(uint32(*clients-1)), record.MaxIndexes) // Clients that aren't Accepted count, too.
	}
	var random [4]byte
	for ; size <= record.MaxIndexes; size *= 2 {
		for range indexTries {
			if _, err := io.ReadFull(r.Random, random[:]); err != nil {
				return 0, fmt.Errorf("choosing an index: %w", err)
			}
			index := int(binary.BigEndian.Uint32(random[:])) & (size - 1)
			holder, err := r.Records.Cached(record.IndexSecretName(realm.UID, index))
			if err != nil {
				return 0, err
			}
			if holder == nil {
				return index, nil
			}
		}
	}
	return statusindex.None, nil
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

// putIndex creates the record of the client's new index.
func (r *Reconciler) putIndex(ctx context.Context, seen *observed, index *record.Index) error {
	if index == nil {
		return nil
	}
	body := *index
	body.UID, body.Namespace, body.Name, body.RealmUID = seen.client.UID, seen.client.Namespace, seen.client.Name, seen.realm.UID
	desired, err := recordsecret.ForIndex(r.Records.Namespace(), body)
	if err != nil {
		return err
	}
	secret, err := r.Records.Put(ctx, nil, desired)
	if err != nil {
		return fmt.Errorf("acquiring index %d: %w", body.Index, err)
	}
	seen.hold(secret)
	return nil
}

// retireIndexes retires and releases the indexes that the client's record doesn't have any longer.
func (r *Reconciler) retireIndexes(ctx context.Context, seen *observed) error {
	// The record that was just written may have made indexes obsolete. Another step of this reconcile must not
	// release them.
	if err := r.gatherHold(ctx, seen); err != nil {
		return err
	}
	retire, release, _ := statusindex.Obsolete(seen.index, seen.at)
	for _, index := range retire {
		secret, err := r.retireIndex(ctx, seen.records[index.Index], index)
		if err != nil {
			return err
		}
		seen.drop(index.Index)
		seen.hold(secret)
	}
	for _, index := range release {
		if err := r.Records.Delete(ctx, seen.records[index.Index]); err != nil {
			return fmt.Errorf("releasing index %d: %w", index.Index, err)
		}
		seen.drop(index.Index)
	}
	return nil
}

func (r *Reconciler) retireIndex(ctx context.Context, secret *corev1.Secret, body record.Index) (*corev1.Secret, error) {
	body.RetiredAt = r.Now().UTC()
	desired, err := recordsecret.ForIndex(r.Records.Namespace(), body)
	if err != nil {
		return nil, err
	}
	if secret, err = r.Records.Put(ctx, secret, desired); err != nil {
		return nil, fmt.Errorf("retiring index %d: %w", body.Index, err)
	}
	return secret, nil
}

// releaseOrphans retires those of the given indexes that are orphaned, and releases those to which no
// valid token refers. It returns when the next one is due; zero if there is none.
func (r *Reconciler) releaseOrphans(ctx context.Context, held []*corev1.Secret, cached recordstore.Orphaned, current func(context.Context) (recordstore.Orphaned, error)) (next time.Time, err error) {
	var orphaned recordstore.Orphaned // according to the API server; nil until it is needed
	holds := map[types.UID]time.Duration{}
	for _, secret := range held {
		if !cached(secret) {
			continue
		}
		body := readOrphan(secret)
		hold, known := holds[body.RealmUID]
		if !known {
			if hold, err = r.indexHold(ctx, body.RealmUID); err != nil {
				return next, err
			}
			holds[body.RealmUID] = hold
		}
		due := body.RetiredAt.Add(hold)
		if !body.RetiredAt.IsZero() && r.Now().Before(due) {
			next = timestamp.Earliest(next, due)
			continue
		}
		if orphaned == nil {
			if orphaned, err = current(ctx); err != nil {
				return next, err
			}
		}
		if !orphaned(secret) {
			continue
		}
		if !body.RetiredAt.IsZero() || hold == 0 {
			err = r.Records.Delete(ctx, secret)
		} else if _, err = r.retireIndex(ctx, secret, body); err == nil {
			next = timestamp.Earliest(next, r.Now().Add(hold))
		}
		if err != nil {
			return next, err
		}
	}
	return next, nil
}

// readOrphan returns the record of an index. Of an unreadable one, only the name and the owner's name are known.
func readOrphan(secret *corev1.Secret) record.Index {
	body, err := record.ReadIndex(secret)
	if err == nil {
		return body
	}
	owner := record.OwnerName(secret)
	body = record.Index{UID: "unknown", Namespace: owner.Namespace, Name: owner.Name, Serial: 1}
	body.RealmUID, body.Index, _ = record.ParseIndexName(secret.Name)
	return body
}
