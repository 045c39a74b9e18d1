package lastuse

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
)

const (
	// flushInterval is the time between two passes over the uses that no status shows yet.
	flushInterval = time.Second
	// maxWrites limits the number of statuses that are waiting to be written because of uses. A status
	// that can't be written stops counting after maxDelay. Because waiting statuses count, a stall
	// does not cause a burst of writes.
	maxWrites = 10
	maxDelay  = time.Minute
	// unknownDelay is how long the store keeps a use of a client or credential that the cache doesn't
	// contain, because the cache of a new leader may lag, or the status may not show a new secret yet.
	// After that, the client or credential counts as deleted.
	unknownDelay = 30 * time.Second
)

// flusher makes the reconciler write uses to the status of ApiClients, and then deletes the
// reports. The manager runs it only on the leader.
type flusher struct {
	store  *Store
	client client.Client
}

// Start implements manager.Runnable.
func (f *flusher) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, f.flush, flushInterval)
	return nil
}

// flush runs one pass.
func (f *flusher) flush(ctx context.Context) {
	log := ctrl.LoggerFrom(ctx).WithName("usage")
	if !f.store.isSynced() {
		return
	}
	shown := f.store.grant(f.store.now())
	// Persist the state first. Otherwise, a time before which uses were lost could be deleted with its
	// report.
	if err := f.store.persist(ctx, f.client); err != nil {
		if !apply.IsStale(err) {
			log.Error(err, "Failed to persist the time before which uses may be missing, will retry")
		}
		return
	}
	for _, object := range shown {
		// The precondition fails if the token server has added uses since the report was read.
		err := f.client.Delete(ctx, object, client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion})
		if client.IgnoreNotFound(err) != nil && !apply.IsStale(err) {
			log.Error(err, "Failed to delete a merged usage report, will retry", "configMap", object.Name)
		}
	}
}

// grant lets the reconciler write the statuses of clients with new uses, at most maxWrites. It returns
// the ConfigMaps that are no longer needed.
func (s *Store) grant(now time.Time) (obsolete []*corev1.ConfigMap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.facts.state == nil {
		s.facts.observeState(&state{}, s.resolution, s.roundUp(now)) // There is no persisted state.
	}
	if period := usage.Truncate(now, s.resolution); !period.Equal(s.period) {
		s.period = period
		clear(s.granted)
	}
	if !s.Grants.Enqueue() {
		return nil // The controller hasn't started yet.
	}
	writes := s.outstanding(now)
	for _, name := range slices.Sorted(maps.Keys(s.unshown)) {
		unshown, r := s.unshown[name], s.facts.reports[name]
		for uid, u := range unshown {
			shown := u.compare(s.clients[uid], r.content.Uses[uid], now)
			switch {
			case shown:
				delete(unshown, uid)
			case u.write && writes < maxWrites && s.isDue(uid):
				s.granted[uid] = now
				s.Grants.Enqueue(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s.clients[uid])})
				writes++
			}
		}
		if len(unshown) == 0 {
			obsolete = append(obsolete, r.object)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.facts.rejected)) {
		// A ConfigMap with another name doesn't belong to Realmkeeper, despite its label.
		if rejected := s.facts.rejected[name]; rejected.reason != metrics.NotAServer {
			obsolete = append(obsolete, rejected.object)
		}
	}
	return obsolete
}

// outstanding returns the number of granted writes that have not happened yet. Grants older than
// maxDelay don't count, so that statuses that can't be written don't delay the others for long.
func (s *Store) outstanding(now time.Time) (n int) {
	for _, since := range s.granted {
		if !since.IsZero() && now.Sub(since) < maxDelay {
			n++
		}
	}
	return n
}

// unshownUses are the uses of one client in a report.
type unshownUses struct {
	// seen is when the uses were first seen.
	seen time.Time
	// compared is the ApiClient in the last comparison. delayed reports whether unknownDelay had passed
	// by then, and write whether the status of the ApiClient lacked a use.
	compared       *v1beta1.ApiClient
	delayed, write bool
}

// compare sets write and reports whether the status of a client shows all of the uses. c is nil if the
// client is unknown. Uses of unknown or deleted clients and credentials count as shown after
// unknownDelay. Uses are compared again only if the client or delayed has changed, because a report can
// contain many uses.
func (u *unshownUses) compare(c *v1beta1.ApiClient, uses Uses, now time.Time) (shown bool) {
	delayed := now.Sub(u.seen) >= unknownDelay
	if c == nil || !c.DeletionTimestamp.IsZero() {
		u.compared, u.write = nil, false
		return delayed
	}
	if u.compared == c && u.delayed == delayed {
		return false // Shown uses were removed, so these were not shown.
	}
	u.compared, u.delayed, u.write = c, delayed, false
	shown = true
	for credential, at := range uses {
		recorded, known := LastUsed(c, credential)
		switch {
		case timeOf(c.Status.LastUsedTime).Before(at), known && recorded.Before(at):
			u.write = true
			return false
		case !known && !delayed:
			shown = false
		}
	}
	return shown
}

// isDue reports whether the status of a client may be written because of uses, which happens at
// most once in a period.
func (s *Store) isDue(uid types.UID) bool {
	if _, granted := s.granted[uid]; granted {
		return false
	}
	return timeOf(s.clients[uid].Status.LastUsedTime).Before(s.period)
}

// setReport adds or replaces a ConfigMap.
func (s *Store) setReport(object *corev1.ConfigMap) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	before, replaced := s.facts.reports[object.Name]
	if replaced && before.object.UID == object.UID && before.object.ResourceVersion == object.ResourceVersion {
		return
	}
	if known, ok := s.facts.rejected[object.Name]; ok && known.object.ResourceVersion == object.ResourceVersion {
		return
	}
	wasUnshown := s.unshown[object.Name]
	delete(s.unshown, object.Name)
	reason, err := s.facts.observeReport(object, now)
	s.facts.lost = s.roundUp(s.facts.lost)
	if err != nil {
		s.rejected(reason)
		ctrl.Log.WithName("usage").Error(err, "Rejected a usage report", "configMap", object.Name, "reason", reason)
		return
	}
	unshown := map[types.UID]*unshownUses{}
	for uid, uses := range s.facts.reports[object.Name].content.Uses {
		if replaced && maps.Equal(before.content.Uses[uid], uses) {
			// A server adds uses to its existing report, so most of them are known already.
			if seen, ok := wasUnshown[uid]; ok {
				unshown[uid] = seen
			}
			continue
		}
		unshown[uid] = &unshownUses{seen: now}
	}
	s.unshown[object.Name] = unshown
}

func (s *Store) removeReport(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts.forgetReport(name)
	delete(s.unshown, name)
}

func (s *Store) setClient(c *v1beta1.ApiClient) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[c.UID] = c
}

func (s *Store) removeClient(c *v1beta1.ApiClient) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c.UID)
}
