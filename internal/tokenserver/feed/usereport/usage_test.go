package usereport_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/usereport"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	namespace = "records"
	server    = "server-0"
)

var errDown = errors.New("connection reset")

// fixture is a Recorder with an API server, both with the same clock.
type fixture struct {
	*usereport.Recorder
	api      *fake.Clientset
	registry *registry.Registry

	mu   sync.Mutex
	now  time.Time
	down bool
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{api: fake.NewClientset(), registry: registry.New(), now: at(10, 59)}
	f.api.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.down {
			return true, nil, errDown
		}
		return false, nil, nil
	})
	f.Recorder = usereport.New(usereport.Options{
		ConfigMaps: f.api.CoreV1().ConfigMaps(namespace), Namespace: namespace, Server: server, Resolution: time.Hour,
		Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: f.clock,
	})
	return f
}

func at(hour, minute int) time.Time { return time.Date(2026, 3, 1, hour, minute, 0, 0, time.UTC) }

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fixture) setClock(now time.Time) { f.set(func() { f.now = now }) }

// client adds a client with the given secrets to the registry.
func (f *fixture) client(uid string, secrets ...string) *registry.Client {
	c := &registry.Client{Record: "client-" + uid, UID: uid, RealmUID: "realm", ID: uid}
	for _, id := range secrets {
		c.Secrets = append(c.Secrets, clientsecret.Stored{ID: id})
	}
	f.registry.SetClient(c)
	return c
}

func (f *fixture) use(c *registry.Client, id string) { f.Record(c, secret(id), f.clock()) }

func secret(id string) usage.Credential { return usage.Credential{Type: usage.Secret, ID: id} }

func (f *fixture) report(t testing.TB) {
	t.Helper()
	testkit.Do(t, f.Report(context.Background()))
}

// reported returns the content of all ConfigMaps, and how many there are.
func (f *fixture) reported(t testing.TB) (*usage.Report, int) {
	t.Helper()
	list := testkit.Value(f.api.CoreV1().ConfigMaps(namespace).List(context.Background(), metav1.ListOptions{LabelSelector: usage.Label + "=" + usage.LabelValue}))(t)
	all := &usage.Report{Server: server}
	for i := range list.Items {
		one := testkit.Value(usage.Parse(&list.Items[i]))(t)
		if one.Lost.After(all.Lost) {
			all.Lost = one.Lost
		}
		for client, credentials := range one.Uses {
			for credential, at := range credentials {
				all.Add(client, credential, at)
			}
		}
	}
	return all, len(list.Items)
}

type times map[string]time.Time // by UID of the client, slash, and ID of the secret

func (f *fixture) want(t testing.TB, want times) {
	t.Helper()
	report, _ := f.reported(t)
	got := times{}
	for client, credentials := range report.Uses {
		for credential, at := range credentials {
			got[string(client)+"/"+credential.ID] = at
		}
	}
	testkit.Diff(t, "reported uses", want, got)
}

func (f *fixture) writes() (n int) {
	for _, action := range f.api.Actions() {
		if action.GetVerb() == "create" || action.GetVerb() == "update" {
			n++
		}
	}
	return n
}

func TestEachPeriodIsReportedOnce(t *testing.T) {
	f := newFixture(t)
	f.Continue()
	c := f.client("c1", "a", "b")
	for minute := range 120 {
		f.setClock(at(10, minute))
		f.use(c, "a")
		if minute == 70 {
			f.use(c, "b")
		}
		f.report(t)
	}
	f.want(t, times{"c1/a": at(11, 0), "c1/b": at(11, 0)})
	testkit.Diff(t, "writes", 3, f.writes())
}

// A changed record doesn't cause a report, and neither does a restart.
func TestKnownUsesAreNotWrittenAgain(t *testing.T) {
	f := newFixture(t)
	f.Continue()
	f.use(f.client("c1", "a"), "a")
	f.report(t)
	changed := f.client("c1", "a", "b")
	f.use(changed, "a")
	f.report(t)
	testkit.Diff(t, "writes after the record changed", 1, f.writes())
	testkit.Diff(t, "requests after the record changed", 2, len(f.api.Actions()))
	f.registry.Remove(changed.Record)
	f.use(f.client("c1", "a"), "a") // as after a restart
	f.report(t)
	testkit.Diff(t, "writes after a restart", 1, f.writes())
	// A client that was created again is another one.
	other := f.client("c2", "a")
	other.Record = changed.Record
	f.registry.SetClient(other)
	f.use(other, "a")
	f.report(t)
	f.want(t, times{"c1/a": at(10, 0), "c2/a": at(10, 0)})
}

// Until never passes a use that is not reported.
func TestUntil(t *testing.T) {
	f := newFixture(t)
	want := func(what string, want time.Time) {
		t.Helper()
		if got := f.Until(); !got.Equal(want) {
			t.Errorf("%s: until %s, want %s", what, got, want)
		}
	}
	want("unknown whether uses were lost", time.Time{})
	f.Continue()
	want("nothing to report", at(10, 59))
	c := f.client("c1", "a", "b")
	f.setClock(at(11, 5))
	f.use(c, "a")
	f.setClock(at(11, 6))
	want("a use is pending", at(10, 59))
	f.down = true
	if err := f.Report(t.Context()); !errors.Is(err, errDown) {
		t.Fatalf("Report returned %v", err)
	}
	want("the report failed", at(10, 59))
	f.down = false
	f.setClock(at(11, 7))
	f.api.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		want("the report is being written", at(10, 59))
		f.use(c, "b")
		f.setClock(at(11, 8))
		return false, nil, nil
	})
	f.report(t)
	want("another use happened during the report", at(11, 7))
	f.report(t)
	f.setClock(at(11, 9))
	want("nothing to report again", at(11, 9))
	f.want(t, times{"c1/a": at(11, 0), "c1/b": at(11, 0)})
}

// If more credentials are used than the limit allows, the report says that uses are missing.
// Credentials that are used again are reported later.
func TestTooManyPendingUses(t *testing.T) {
	f := newFixture(t)
	f.Continue()
	f.LimitPending(2)
	c := f.client("c1", "a", "b", "c")
	for range 2 {
		for _, id := range []string{"a", "b", "c"} {
			f.use(c, id)
		}
	}
	if got := f.Until(); !got.IsZero() {
		t.Errorf("until %s although a use is lost", got)
	}
	f.report(t)
	if report, _ := f.reported(t); !report.Lost.Equal(at(10, 59)) {
		t.Errorf("lost %s", report.Lost)
	}
	f.want(t, times{"c1/a": at(10, 0), "c1/b": at(10, 0)})
	f.use(c, "c")
	f.report(t)
	f.want(t, times{"c1/a": at(10, 0), "c1/b": at(10, 0), "c1/c": at(10, 0)})
}

// A clock that was ahead for a while hides no later use. The next report corrects its times.
func TestClockJumps(t *testing.T) {
	f := newFixture(t)
	f.Continue()
	c := f.client("c1", "a", "b", "c")
	f.setClock(at(20, 0))
	f.use(c, "a")
	f.use(c, "b")
	f.report(t)
	f.use(c, "c")
	f.setClock(at(11, 30))
	f.use(c, "a")
	f.report(t)
	f.want(t, times{"c1/a": at(11, 0), "c1/b": at(11, 0), "c1/c": at(11, 0)})
	f.setClock(at(12, 30))
	f.use(c, "a")
	f.report(t)
	f.want(t, times{"c1/a": at(12, 0), "c1/b": at(11, 0), "c1/c": at(11, 0)})
}

// The reports of many clients fill several ConfigMaps, none above the limit. Uses that don't fit
// remain pending until the operator has deleted a ConfigMap.
func TestReportsAreLimited(t *testing.T) {
	f := newFixture(t)
	f.Continue()
	const clients = 8000
	long := strings.Repeat("<", usage.MaxIDLength-8) // the encoded form is six times as long
	want := times{}
	for i := range clients {
		uid, id := fmt.Sprintf("5c9e2c5e-0000-4000-8000-%012d", i), fmt.Sprintf("%s%04d", long, i)
		f.use(f.client(uid, id), id)
		want[uid+"/"+id] = at(10, 0)
	}
	f.report(t)
	if _, n := f.reported(t); n < clients*6*len(long)/usage.MaxSize || n > usage.MaxReports {
		t.Errorf("%d ConfigMaps", n)
	}
	f.want(t, want)

	for i := range clients {
		uid, id := fmt.Sprintf("5c9e2c5e-0000-4000-9000-%012d", i), fmt.Sprintf("%s%04d", long, i)
		f.use(f.client(uid, id), id)
		want[uid+"/"+id] = at(10, 0)
	}
	until := f.Until()
	if err := f.Report(t.Context()); err == nil {
		t.Fatal("everything fits into the ConfigMaps")
	}
	f.setClock(at(11, 0))
	if got := f.Until(); !got.Equal(until) {
		t.Errorf("until %s while uses are left, want %s", got, until)
	}
	merged, _ := f.reported(t)
	for n := range usage.MaxReports {
		testkit.Do(t, f.api.CoreV1().ConfigMaps(namespace).Delete(t.Context(), usage.Name(server, n), metav1.DeleteOptions{}))
	}
	f.report(t)
	left, _ := f.reported(t)
	for client, credentials := range merged.Uses {
		for credential, at := range credentials {
			left.Add(client, credential, at)
		}
	}
	testkit.Diff(t, "reported clients", 2*clients, len(left.Uses))
}

// The operator can delete a ConfigMap at any time. A ConfigMap can also be damaged.
func TestConfigMapsOfOthers(t *testing.T) {
	f := newFixture(t)
	f.Continue()
	c := f.client("c1", "a", "b", "c")
	f.use(c, "a")
	f.report(t)
	remove := true
	f.api.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		if remove {
			remove = false
			testkit.Do(t, f.api.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("configmaps"), namespace, usage.Name(server, 0)))
		}
		return false, nil, nil
	})
	f.use(c, "b")
	f.report(t)
	f.want(t, times{"c1/b": at(10, 0)})

	damaged := usage.ConfigMap(namespace, server, 0, "{")
	testkit.Value(f.api.CoreV1().ConfigMaps(namespace).Update(t.Context(), damaged, metav1.UpdateOptions{}))(t)
	f.use(c, "c")
	f.report(t)
	f.want(t, times{"c1/c": at(10, 0)})
	if report, _ := f.reported(t); !report.Lost.Equal(at(10, 59)) {
		t.Errorf("lost %s after the report was damaged", report.Lost)
	}
}

// The use of a credential without a valid ID isn't reported, because the operator would reject the whole
// report.
func TestCredentialWithoutID(t *testing.T) {
	f := newFixture(t)
	f.Continue()
	c := f.client("c1", "", strings.Repeat("a", usage.MaxIDLength+1))
	f.use(c, "")
	f.use(c, c.Secrets[1].ID)
	f.use(c, "unknown")
	f.report(t)
	testkit.Diff(t, "writes", 0, f.writes())
}
