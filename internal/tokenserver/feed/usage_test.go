package feed_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/usereport"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// reporting is a feed with a recorder of used credentials.
type reporting struct {
	*usereport.Recorder
	api  *apiServer
	fake *fake.Clientset
	stop func()
}

// startReporting starts a feed. If killed, the Lease of a previous process exists. If down, ConfigMaps
// can't be written.
func startReporting(t *testing.T, killed, down bool) *reporting {
	t.Helper()
	r := &reporting{api: &apiServer{}}
	r.fake = r.api.client()
	if killed {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "records", Name: heartbeat.LeaseName("a")}}
		testkit.Do(t, r.fake.Tracker().Add(lease))
	}
	if down {
		r.fake.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errDown })
	}
	r.Recorder = usereport.New(usereport.Options{
		ConfigMaps: clientOf(r.fake).ConfigMaps, Namespace: "records", Server: "a", Resolution: time.Hour,
		Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now,
	})
	f := feed.New(feed.Options{
		Client: clientOf(r.fake), Namespace: "records", Server: "a", Registry: registry.New(), Usage: r.Recorder,
		Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	r.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(r.stop)
	synctest.Wait()
	return r
}

// use records the use of a secret.
func (r *reporting) use() {
	reg, c := registry.New(), &registry.Client{UID: "c1", Secrets: []clientsecret.Stored{{ID: "s1"}}}
	reg.SetClient(c)
	r.Record(c, usage.Credential{Type: usage.Secret, ID: "s1"}, time.Now())
}

// writes returns the writes of Leases and ConfigMaps in order.
func (r *reporting) writes() (writes []string) {
	for _, action := range r.fake.Actions() {
		switch verb := action.GetVerb(); verb {
		case "create", "update", "patch", "delete":
			writes = append(writes, verb+" "+action.GetResource().Resource)
		}
	}
	return writes
}

func (r *reporting) report(t *testing.T) *usage.Report {
	t.Helper()
	cm := testkit.Value(r.fake.CoreV1().ConfigMaps("records").Get(context.Background(), usage.Name("a", 0), metav1.GetOptions{}))(t)
	return testkit.Value(usage.Parse(cm))(t)
}

// A server that ends cleanly reports all uses before it deletes its Lease.
func TestLastReportPrecedesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReporting(t, false, false)
		began := time.Now()
		time.Sleep(time.Minute)
		r.use()
		used := time.Now()
		time.Sleep(time.Minute)
		beats := r.api.beatsSince(began)
		if first := beats[0]; !first.usageUntil.Equal(first.at) {
			t.Errorf("usage until %s at %s, with nothing to report", first.usageUntil, first.at)
		}
		if last := beats[len(beats)-1]; last.usageUntil.After(used) || last.usageUntil.IsZero() {
			t.Errorf("usage until %s with a pending use at %s", last.usageUntil, used)
		}
		r.stop()
		writes := r.writes()
		if end := writes[len(writes)-2:]; !slices.Equal(end, []string{"create configmaps", "delete leases"}) {
			t.Errorf("the last writes are %v", end)
		}
		if report := r.report(t); len(report.Uses) != 1 || !report.Lost.IsZero() {
			t.Errorf("report %v", report)
		}
	})
}

// Before its first heartbeat, a server that replaces a killed one reports that uses may be missing.
func TestKilledServerLostUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReporting(t, true, false)
		if first := r.writes()[:2]; !slices.Equal(first, []string{"create configmaps", "patch leases"}) {
			t.Errorf("the first writes are %v", first)
		}
		if lost := r.report(t).Lost; !lost.Equal(time.Now()) {
			t.Errorf("lost %s, want %s", lost, time.Now())
		}
	})
}

// A server that can't report uses is live, but its heartbeats and the Lease that it leaves behind
// show that uses may be missing.
func TestServerThatCannotReport(t *testing.T) {
	for _, killed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := startReporting(t, killed, true)
			began := time.Now()
			r.use()
			time.Sleep(time.Minute)
			for _, b := range r.api.beatsSince(began) {
				if b.usageUntil.After(began) || killed && !b.usageUntil.IsZero() {
					t.Errorf("usage until %s at %s", b.usageUntil, b.at)
				}
			}
			r.stop()
			writes := r.writes()
			if !slices.Contains(writes, "patch leases") || slices.Contains(writes, "delete leases") {
				t.Errorf("the server must write its Lease and keep it: %v", writes)
			}
		})
	}
}
