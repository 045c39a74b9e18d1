package usage_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/usage"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

var (
	clients = flag.Int("clients", 80, "Number of ApiClients to create")
	active  = flag.Int("active", 40, "Number of ApiClients that request tokens")
)

const (
	servers = 3
	// perSecond is how many tokens the active clients request together.
	perSecond = 100
	// writesPerSecond is the documented limit of the operator.
	writesPerSecond = 10
)

// fleet is an installation with many clients.
type fleet struct {
	*install.Installation
	team       string
	began      time.Time
	resolution time.Duration
	https      []*http.Client
	// credentials contains the credentials Secrets of all clients, by name. lastUses contains the
	// last uses of the active ones.
	credentials map[string]*corev1.Secret
	lastUses    map[string]span
}

// span contains the time of a use, which is between the request and the response.
type span struct{ from, to time.Time }

// The status of each active client shows the period of its last token, and the number of writes is
// limited. An operator that restarts writes nothing.
func TestLastUseOfManyClients(t *testing.T) {
	f := newFleet(t)
	f.request(t)
	f.awaitShown(t)
	f.awaitNoReports(t)
	f.checkWrites(t)
	f.checkUnused(t)

	f.StopOperator(t)
	before := len(f.writes(t, ""))
	f.StartOperator(t, "")
	f.awaitReconciled(t)
	if after := f.writes(t, ""); len(after) != before {
		t.Errorf("the restarted operator made %d writes, want none: %v", len(after)-before, after[before:])
	}
}

// newFleet starts an installation and creates clients. A period is long enough to write the statuses
// of all active clients.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	cluster := env.Start(t)
	shortest := max(10*time.Second, time.Duration(*active)*time.Second/writesPerSecond*3/2)
	speedUp := max(1, int(time.Hour/shortest))
	f := &fleet{
		Installation: install.New(t, cluster, install.Settings{SpeedUp: speedUp}), team: cluster.Namespace(t),
		resolution: time.Hour / time.Duration(speedUp), credentials: map[string]*corev1.Secret{}, lastUses: map[string]span{},
	}
	f.StartOperator(t, "")
	for range servers {
		f.https = append(f.https, f.StartTokenServer(t).Client(t))
	}
	f.Create(t, install.Realm("acme"))
	began := time.Now()
	workqueue.ParallelizeUntil(t.Context(), 8, *clients, func(i int) {
		if err := cluster.Client.Create(t.Context(), install.ApiClient(f.team, name(i), "acme")); err != nil {
			t.Error(err)
		}
	})
	f.awaitEach(t, "Ready", func(c *v1alpha1.ApiClient) bool {
		ready := slices.IndexFunc(c.Status.Conditions, func(c metav1.Condition) bool { return c.Type == string(v1alpha1.ConditionReady) })
		return ready >= 0 && c.Status.Conditions[ready].Status == metav1.ConditionTrue
	})
	t.Logf("%d ApiClients are Ready after %s; a period is %s", *clients, time.Since(began).Round(time.Second), f.resolution)
	secrets := &corev1.SecretList{}
	if err := cluster.Client.List(t.Context(), secrets, client.InNamespace(f.team)); err != nil {
		t.Fatal(err)
	}
	for i := range secrets.Items {
		f.credentials[secrets.Items[i].Name] = &secrets.Items[i]
	}
	f.began = time.Now()
	return f
}

func name(i int) string { return fmt.Sprintf("client-%d", i) }

// request requests tokens for the active clients at random servers until each of them has been used in
// two periods.
func (f *fleet) request(t *testing.T) {
	t.Helper()
	limiter := rate.NewLimiter(perSecond, 1)
	random := rand.New(rand.NewPCG(1, 2))
	tokens := 0
	for second := usage.Truncate(time.Now(), f.resolution).Add(f.resolution); ; {
		last := !time.Now().Before(second)
		for i := range *active {
			if err := limiter.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			n := random.IntN(servers)
			from := time.Now()
			response, err := install.RequestToken(t, f.Servers()[n], f.https[n], f.credentials[name(i)])
			if err != nil || response.AccessToken == "" {
				t.Fatalf("no token for %s: %+v, %v", name(i), response, err)
			}
			f.lastUses[name(i)] = span{from, time.Now()}
			tokens++
		}
		if last {
			break
		}
	}
	t.Logf("%d tokens for %d clients in %s", tokens, *active, time.Since(f.began).Round(time.Second))
}

// awaitShown waits until the status of each active client shows its last use.
func (f *fleet) awaitShown(t *testing.T) {
	t.Helper()
	began := time.Now()
	f.awaitEach(t, "shown with their last use", func(c *v1alpha1.ApiClient) bool {
		last, used := f.lastUses[c.Name]
		if !used {
			return true
		}
		at := c.Status.Secrets[0].LastUsedTime
		return at.Equal(c.Status.LastUsedTime) && at != nil &&
			(at.Time.Equal(usage.Truncate(last.from, f.resolution)) || at.Time.Equal(usage.Truncate(last.to, f.resolution)))
	})
	t.Logf("all last uses are shown after %s", time.Since(began).Round(time.Millisecond))
}

// checkUnused checks that the status of clients that were never used shows no use.
func (f *fleet) checkUnused(t *testing.T) {
	t.Helper()
	all := f.list(t)
	for i := range all {
		c := &all[i]
		if _, used := f.lastUses[c.Name]; !used && (c.Status.LastUsedTime != nil || c.Status.Secrets[0].LastUsedTime != nil) {
			t.Fatalf("%s was never used, and its status shows %v", c.Name, c.Status.LastUsedTime)
		}
	}
}

func (f *fleet) list(t *testing.T) []v1alpha1.ApiClient {
	t.Helper()
	list := &v1alpha1.ApiClientList{}
	if err := f.Env.Client.List(t.Context(), list, client.InNamespace(f.team)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// awaitEach waits until a condition holds for all clients. It fails if their number stops growing. A
// use may not be written before the next period if an earlier use was written late in its period.
func (f *fleet) awaitEach(t *testing.T, what string, holds func(*v1alpha1.ApiClient) bool) {
	t.Helper()
	timeout := f.resolution + time.Minute
	most, deadline := 0, time.Now().Add(timeout)
	err := wait.PollUntilContextCancel(t.Context(), max(200*time.Millisecond, time.Duration(*clients/4)*time.Millisecond), true, func(context.Context) (bool, error) {
		now := 0
		for _, c := range f.list(t) {
			if holds(&c) {
				now++
			}
		}
		switch {
		case now > most:
			most, deadline = now, time.Now().Add(timeout)
		case time.Now().After(deadline):
			return false, fmt.Errorf("%d of %d ApiClients are %s, and nothing has changed for %s", now, *clients, what, timeout)
		}
		return now == *clients, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitNoReports waits until the operator has deleted all reports.
func (f *fleet) awaitNoReports(t *testing.T) {
	t.Helper()
	install.Eventually(t, "all reports to be deleted", func() error {
		if reports := f.reports(t.Context(), t); len(reports) > 0 {
			return fmt.Errorf("%d exist, such as %s: %s", len(reports), reports[0].Name, reports[0].Data)
		}
		return nil
	})
}

func (f *fleet) reports(ctx context.Context, t *testing.T) []corev1.ConfigMap {
	t.Helper()
	reports := &corev1.ConfigMapList{}
	if err := f.Env.Client.List(ctx, reports, client.InNamespace(f.RecordsNamespace), client.MatchingLabels{usage.Label: usage.LabelValue}); err != nil {
		t.Fatal(err)
	}
	return reports.Items
}
