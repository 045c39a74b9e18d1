package usage

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/usage"
)

const (
	// flushInterval is the time between two passes over the uses that are not shown yet.
	flushInterval = time.Second
	// maxWrites is how many statuses are written because of uses in each interval. Those that were not
	// written in the last maxDelay count, too; otherwise, they would all be written after a stall.
	maxWrites = 10
	maxDelay  = time.Minute
	// unknownDelay is how long a use of a client or credential that the cache doesn't contain is kept.
	// After that, it was deleted. Until then, the cache of a new leader may lag, or the status may not
	// show a new secret yet.
	unknownDelay = 30 * time.Second
)

// flusher writes uses to the status of ApiClients, and then deletes the reports. The manager runs it
// only on the leader.
type flusher struct {
	store  *Store
	client client.Client
}

// Start implements manager.Runnable.
func (f *flusher) Start(ctx context.Context) error {
	ticker := time.NewTicker(flushInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			f.flush(ctx)
		}
	}
}

// flush runs one pass.
func (f *flusher) flush(ctx context.Context) {
	log := ctrl.LoggerFrom(ctx).WithName("usage")
	if !f.store.isSynced() {
		return
	}
	shown := f.store.grant(f.store.now())
	// The state comes first, because a report can contain a time before which uses were lost.
	if err := f.store.persist(ctx, f.client); err != nil {
		if !apply.IsStale(err) {
			log.Error(err, "Failed to persist the time before which uses may be missing, will retry")
		}
		return
	}
	for _, object := range shown {
		// The precondition fails if the token server has added uses since.
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
		s.facts.observeState(&state{}, s.resolution, s.roundUp(now)) // The operator has never run.
	}
	if period := usage.Truncate(now, s.resolution); !period.Equal(s.period) {
		s.period = period
		clear(s.granted)
	}
	if s.queue == nil {
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
				s.queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s.clients[uid])})
				writes++
			}
		}
		if len(unshown) == 0 {
			obsolete = append(obsolete, r.object)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.facts.rejected)) {
		// Other ConfigMaps don't belong to Realmkeeper, despite their label.
		if rejected := s.facts.rejected[name]; rejected.reason != metrics.NotAServer {
			obsolete = append(obsolete, rejected.object)
		}
	}
	return obsolete
}

// outstanding returns how many statuses may be written and have not been. Those that can't be written
// must not delay the others for long.
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
	// compared is the ApiClient that the uses were last compared with, and delayed is whether
	// unknownDelay had passed by then. write is the result: the status of the ApiClient lacks a use.
	compared       *v1alpha1.ApiClient
	delayed, write bool
}

// compare sets write and reports whether the status of a client shows all of the uses. c is nil if the
// client is unknown. Uses of deleted clients and credentials count as shown after a delay. Uses are
// compared again only if the client has changed, because a report can contain many of them.
func (u *unshownUses) compare(c *v1alpha1.ApiClient, uses Uses, now time.Time) (shown bool) {
	delayed := now.Sub(u.seen) >= unknownDelay
	if c == nil || !c.DeletionTimestamp.IsZero() {
		u.compared, u.write = nil, false
		return delayed
	}
	if u.compared == c && u.delayed == delayed {
		return false // Otherwise, the uses would no longer be here.
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

// isDue reports whether the status of a client may be written because of uses: immediately after
// the first use, and later once in a period.
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
			// A server adds to a report that it has read, so most uses are known already.
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

func (s *Store) setClient(c *v1alpha1.ApiClient) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[c.UID] = c
}

func (s *Store) removeClient(c *v1alpha1.ApiClient) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c.UID)
}
