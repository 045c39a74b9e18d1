package scale_test

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

var crowdSize = flag.Int("clients", 300, "how many ApiClients the tests of many create; docs/operations.md says how to go further")

// What one of many new ApiClients may cost, however many come at once.
const (
	// writesEach: the record, the consumer Secret, status twice, before and after token
	// servers have the record, and an Event. One more, where another's write comes between.
	writesEach = 6
	// reconcilesEach: for the object, for its record and for its consumer Secret as they are
	// seen, and for the acknowledgement. One more, as above.
	reconcilesEach = 5
)

// Many ApiClients cost each what one costs, nothing when they are there, and a restart of the
// operator over them writes nothing.
func TestCrowd(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	team := cluster.Namespace(t)
	realm := install.Realm("acme")
	inst.Create(t, realm)
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1alpha1.ReasonReady)
	before, began := writesByOperator(t, cluster), time.Now()

	crowd(t, inst, team, realm.Name, *crowdSize)
	t.Logf("%d ApiClients are Ready after %s", *crowdSize, time.Since(began).Round(time.Second))
	reconciles := awaitLull(t, inst)
	writes := writesByOperator(t, cluster) - before
	t.Logf("each took %.2f reconciles and %.2f writes", per(reconciles), per(writes))
	if reconciles > reconcilesEach**crowdSize || writes > writesEach**crowdSize {
		t.Errorf("for %d ApiClients there were %d reconciles and %d writes, want at most %d and %d for each", *crowdSize, reconciles, writes, reconcilesEach, writesEach)
	}
	logMemory(t, inst)

	inst.StopOperator(t)
	before = writesByOperator(t, cluster)
	inst.StartOperator(t, "")
	for seen := -1; seen < *crowdSize; {
		install.Eventually(t, "the restarted operator to look at more ApiClients", func() error {
			now := reconcilesOf(t, inst)
			if now <= seen {
				return fmt.Errorf("it has looked at %d of %d", now, *crowdSize)
			}
			seen = now
			return nil
		})
	}
	awaitHeartbeats(t, inst, 1)
	if now := writesByOperator(t, cluster); now != before {
		t.Errorf("the restarted operator writes %d times", now-before)
	}
	if now := reconcilesOf(t, inst); now > 2**crowdSize {
		t.Errorf("the restarted operator reconciles %d times for %d ApiClients", now, *crowdSize)
	}
	logMemory(t, inst)
}

// awaitLull waits until no ApiClient is reconciled between heartbeats, and returns how many
// were by then. Those that never end are too many at some time.
func awaitLull(t *testing.T, inst *install.Installation) int {
	t.Helper()
	awaitHeartbeats(t, inst, 1)
	for {
		before := reconcilesOf(t, inst)
		awaitHeartbeats(t, inst, 2)
		now := reconcilesOf(t, inst)
		if now == before {
			return now
		}
		if now > reconcilesEach**crowdSize {
			t.Fatalf("%d reconciles of %d ApiClients, and no end", now, *crowdSize)
		}
		t.Logf("%d reconciles while others were under way", now-before)
	}
}

func per(n int) float64 { return float64(n) / float64(*crowdSize) }

// crowd creates that many ApiClients, and waits until all are Ready.
func crowd(t testing.TB, inst *install.Installation, team, realm string, size int) {
	t.Helper()
	t.Cleanup(func() { removeCrowd(t, inst, team) })
	numbers := make(chan int)
	var creating sync.WaitGroup
	for range 8 {
		creating.Go(func() {
			for n := range numbers {
				if err := inst.Env.Client.Create(t.Context(), install.ApiClient(team, fmt.Sprintf("crowd-%d", n), realm)); err != nil {
					t.Errorf("Creating an ApiClient: %v", err)
				}
			}
		})
	}
	creating.Go(func() {
		defer close(numbers)
		for n := range size {
			numbers <- n
		}
	})
	ready := map[string]bool{}
	for len(ready) < size {
		watchReady(t, inst, team, ready, size)
	}
	creating.Wait()
}

// watchReady notes which ApiClients are Ready, until that many are, or the API server ends the
// watch, as it does with one that lags.
func watchReady(t testing.TB, inst *install.Installation, team string, ready map[string]bool, size int) {
	t.Helper()
	note := func(c *v1alpha1.ApiClient) {
		if meta.IsStatusConditionTrue(c.Status.Conditions, string(v1alpha1.ConditionReady)) {
			ready[c.Name] = true
		}
	}
	list := &v1alpha1.ApiClientList{}
	if err := inst.Env.Client.List(t.Context(), list, client.InNamespace(team)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		note(&list.Items[i])
	}
	since := &client.ListOptions{Namespace: team, Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	events, err := inst.Env.Client.Watch(t.Context(), &v1alpha1.ApiClientList{}, since)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	const patience = time.Minute
	for len(ready) < size {
		select {
		case event := <-events.ResultChan():
			c, ok := event.Object.(*v1alpha1.ApiClient)
			if !ok {
				return
			}
			note(c)
		case <-time.After(patience):
			t.Fatalf("%d of %d ApiClients are Ready, and nothing has changed for %s", len(ready), size, patience)
		}
	}
}

// removeCrowd deletes in one request what would take the end of the installation one for each;
// in several where the API server runs out of time with it.
func removeCrowd(t testing.TB, inst *install.Installation, team string) {
	inst.StopOperator(t)
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	defer stop()
	for {
		err := inst.Env.Client.DeleteAllOf(ctx, &v1alpha1.ApiClient{}, client.InNamespace(team))
		if apierrors.IsTimeout(err) {
			continue
		}
		if err != nil {
			t.Errorf("Deleting ApiClients: %v", err)
		}
		return
	}
}

// awaitHeartbeats waits until each token server has renewed its Lease so many times: what was
// under way before is over, and what happens by the clock, the operator's looks at the Leases
// too, has happened.
func awaitHeartbeats(t *testing.T, inst *install.Installation, times int) {
	t.Helper()
	for range times {
		last := renewals(t, inst)
		install.Eventually(t, "all token servers to renew their Leases", func() error {
			for name, now := range renewals(t, inst) {
				if now == last[name] {
					return fmt.Errorf("the last renewal of %s is that of %s", name, now)
				}
			}
			return nil
		})
	}
}

func renewals(t *testing.T, inst *install.Installation) map[string]string {
	t.Helper()
	leases := &coordinationv1.LeaseList{}
	err := inst.Env.Client.List(t.Context(), leases, client.InNamespace(inst.Namespace), client.MatchingLabels{heartbeat.Label: heartbeat.LabelValue})
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]string{}
	for i := range leases.Items {
		at[leases.Items[i].Name] = leases.Items[i].ResourceVersion
	}
	return at
}

// reconcilesOf returns how often the operator has reconciled an ApiClient since its start.
func reconcilesOf(t *testing.T, inst *install.Installation) int {
	t.Helper()
	sum := 0
	for line := range strings.Lines(inst.OperatorMetrics(t)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(name, `controller_runtime_reconcile_total{controller="apiclient",`) {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			sum += n
		}
	}
	return sum
}

// writesByOperator returns how often the operator has written anything but Leases.
func writesByOperator(t *testing.T, cluster *env.Env) int {
	t.Helper()
	n := 0
	for _, write := range cluster.Writes(t) {
		if scenario.ByOperator(write) && write.ObjectRef.Resource != "leases" {
			n++
		}
	}
	return n
}

// logMemory tells what the programs take, which a race detector makes a multiple of.
func logMemory(t *testing.T, inst *install.Installation) {
	t.Helper()
	tell := func(name, metrics string) {
		for line := range strings.Lines(metrics) {
			value, ok := strings.CutPrefix(strings.TrimSpace(line), "process_resident_memory_bytes ")
			if bytes, err := strconv.ParseFloat(value, 64); ok && err == nil {
				t.Logf("%s takes %.0f MiB with %d ApiClients", name, bytes/(1<<20), *crowdSize)
			}
		}
	}
	tell("the operator", inst.OperatorMetrics(t))
	for _, s := range inst.Servers() {
		tell(s.Name, s.Metrics(t))
	}
}
