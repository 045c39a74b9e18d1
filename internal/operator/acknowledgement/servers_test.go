package acknowledgement_test

import (
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
)

// observed is a queue with the requests that changes of the servers trigger.
func (f *fixture) observed(t *testing.T) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	t.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	testkit.Do(t, f.tracker.ServersSource("instance").Start(t.Context(), queue))
	return queue
}

// A server lags since the oldest record that it hasn't served, not since the newest one: records of a busy
// instance change all the time. Only changes that matter trigger a reconcile, so heartbeats don't.
func TestLagOfServer(t *testing.T) {
	f := newFixture(t)
	queue := f.observed(t)
	follow := func(version string) func() { return func() { f.state("client", version) } }
	report := func(version string, undecrypted ...string) func() {
		return func() {
			lease := f.lease("a", version)
			if len(undecrypted) > 0 {
				lease.Annotations[heartbeat.UndecryptedActiveAnnotation] = undecrypted[0]
			}
			f.leases.OnUpdate(nil, lease)
		}
	}
	for _, step := range []struct {
		name      string
		do        func()
		want      time.Duration // Lagging, from start; -1 for zero
		triggered bool
	}{
		{"record before the first server", follow("10"), -1, false},
		{"starting server", report(""), -1, true},
		{"loaded an older list", report("9"), 2 * time.Second, true},
		{"caught up", report("10"), -1, true},
		{"heartbeat", report("10"), -1, false},
		{"new record", follow("11"), 5 * time.Second, true},
		{"another one", follow("12"), 5 * time.Second, false},
		{"older record", follow("8"), 5 * time.Second, false},
		{"reached the first", report("11"), 8 * time.Second, false},
		{"no progress", report("11"), 8 * time.Second, false},
		{"caught up again", report("12"), -1, true},
		{"a key is not decrypted", report("12", "acme"), 11 * time.Second, true},
		{"nor another one", report("12", "acme,shop"), 11 * time.Second, true},
		{"behind, too", follow("13"), 11 * time.Second, false},
		{"decrypted", report("12"), 13 * time.Second, true},
	} {
		step.do()
		got := time.Duration(-1)
		for _, s := range f.tracker.Servers() {
			if !s.Lagging.IsZero() {
				got = s.Lagging.Sub(start)
			}
		}
		if triggered := queue.Len() > 0; got != step.want || triggered != step.triggered {
			t.Errorf("%s: lagging since %s, triggered %t; want %s and %t", step.name, got, triggered, step.want, step.triggered)
		}
		for queue.Len() > 0 {
			request, _ := queue.Get()
			queue.Done(request)
		}
		f.now = f.now.Add(time.Second)
	}
	f.remove("a")
	testkit.Diff(t, "servers after the removal", []acknowledgement.Server{}, f.tracker.Servers())
	testkit.Diff(t, "requests after the removal", 1, queue.Len())
}
