package scale_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/issuer"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

var manyClients = flag.Int("clients", 100, "Number of ApiClients to create")

// Limits per new ApiClient, regardless of how many are created at the same time.
const (
	// writesEach counts the records of the client and its subject, the credentials Secret, and the
	// status.
	writesEach = 4
	// reconcilesEach allows for one reconcile each for the object, its Secrets, the acknowledgement,
	// the status, and the end of the delay before the first status is written.
	reconcilesEach = 5
)

// countInterval is the shortest time between two writes of the number of a Realm's clients.
const countInterval = 5 * time.Second

// otherWrites is how many more writes are allowed for all clients together: conflicts, and writes that
// don't concern the clients.
const otherWrites = 10

// The cost of creating an ApiClient doesn't depend on how many exist. Idle ApiClients cause no
// work, and an operator that restarts writes nothing.
func TestManyClients(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	team := cluster.Namespace(t)
	realm := newRealm(t)
	inst.Create(t, realm)
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	before, began := len(writesByOperator(t, cluster)), time.Now()

	createClients(t, inst, team, realm.Name, *manyClients)
	t.Logf("%d ApiClients are Ready after %s", *manyClients, time.Since(began).Round(time.Second))
	reconciles := awaitIdle(t, inst)
	writes := writesByOperator(t, cluster)[before:]
	late := secondStatuses(writes)
	t.Logf("%.2f reconciles and %.2f writes for each; %d needed a second status", per(reconciles), per(len(writes)), late)
	counts, most := countWrites(writes), 2+int(time.Since(began)/countInterval)
	t.Logf("%d writes of the number of clients in %s", counts, time.Since(began).Round(time.Second))
	if counts > most {
		t.Errorf("the operator wrote the number of the Realm's clients %d times, want at most %d", counts, most)
	}
	if reconciles > reconcilesEach**manyClients+late || len(writes)-counts > writesEach**manyClients+late+otherWrites || late > *manyClients*3/4 {
		t.Errorf("%d ApiClients caused %d reconciles, want at most %d for each; and these writes, want at most %d for each:\n%s",
			*manyClients, reconciles, reconcilesEach, writesEach, summaryOf(writes))
	}

	inst.StopOperator(t)
	before = len(writesByOperator(t, cluster))
	inst.StartOperator(t, "")
	for seen := -1; seen < *manyClients; {
		install.Eventually(t, "the restarted operator to reconcile more ApiClients", func() error {
			now := reconcilesOf(t, inst)
			if now <= seen {
				return fmt.Errorf("it has reconciled %d of %d", now, *manyClients)
			}
			seen = now
			return nil
		})
	}
	awaitHeartbeats(t, inst, 1)
	if writes := writesByOperator(t, cluster)[before:]; len(writes) > 0 {
		t.Errorf("the restarted operator made %d writes, want none:\n%s", len(writes), summaryOf(writes))
	}
	reconciles = reconcilesOf(t, inst)
	t.Logf("%.2f reconciles for each after a restart", per(reconciles))
	if reconciles > 2**manyClients {
		t.Errorf("the restarted operator reconciled %d times for %d ApiClients", reconciles, *manyClients)
	}
}

// awaitIdle waits until the operator reconciles no ApiClients between heartbeats, and returns the
// number of reconciles so far. The test fails if they don't end.
func awaitIdle(t *testing.T, inst *install.Installation) int {
	t.Helper()
	awaitHeartbeats(t, inst, 1)
	for {
		before := reconcilesOf(t, inst)
		awaitHeartbeats(t, inst, 2)
		now := reconcilesOf(t, inst)
		if now == before {
			return now
		}
		if now > 2*reconcilesEach**manyClients {
			t.Fatalf("%d reconciles of %d ApiClients, and the operator is not idle", now, *manyClients)
		}
		t.Logf("%d more reconciles", now-before)
	}
}

func per(n int) float64 { return float64(n) / float64(*manyClients) }

// ciName is the name of a trusted issuer.
const ciName = "ci"

// newRealm returns a realm that trusts this issuer.
func newRealm(t testing.TB) *v1beta1.Realm {
	t.Helper()
	return install.Realm("acme", func(r *v1beta1.Realm) {
		r.Spec.TrustedIssuers = []v1beta1.TrustedIssuer{issuer.NewStatic(t, ciName, "https://ci.example.com").Trusted(t)}
	})
}

// newClient returns a client with a generated secret and a subject of its own.
func newClient(team, name, realm string) *v1beta1.ApiClient {
	return install.ApiClient(team, name, realm, func(c *v1beta1.ApiClient) {
		c.Spec.Secret = install.GeneratedSecret()
		c.Spec.Identities = install.Subjects(ciName, "repo:acme/"+name)
	})
}

// createClients creates ApiClients and waits until all of them are Ready.
func createClients(t testing.TB, inst *install.Installation, team, realm string, size int) {
	t.Helper()
	t.Cleanup(func() { deleteClients(t, inst, team) })
	numbers := make(chan int)
	var creating sync.WaitGroup
	for range 8 {
		creating.Go(func() {
			for n := range numbers {
				if err := inst.Env.Client.Create(t.Context(), newClient(team, fmt.Sprintf("client-%d", n), realm)); err != nil {
					t.Errorf("Failed to create an ApiClient: %v", err)
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

// watchReady records which ApiClients are Ready. It returns when enough of them are, or when the API
// server ends the watch because the test can't keep up.
func watchReady(t testing.TB, inst *install.Installation, team string, ready map[string]bool, size int) {
	t.Helper()
	note := func(c *v1beta1.ApiClient) {
		if meta.IsStatusConditionTrue(c.Status.Conditions, string(v1beta1.ConditionReady)) {
			ready[c.Name] = true
		}
	}
	list := &v1beta1.ApiClientList{}
	if err := inst.Env.Client.List(t.Context(), list, client.InNamespace(team)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		note(&list.Items[i])
	}
	since := &client.ListOptions{Namespace: team, Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	events, err := inst.Env.Client.Watch(t.Context(), &v1beta1.ApiClientList{}, since)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	const timeout = time.Minute
	for len(ready) < size {
		select {
		case event := <-events.ResultChan():
			c, ok := event.Object.(*v1beta1.ApiClient)
			if !ok {
				return
			}
			note(c)
		case <-time.After(timeout):
			t.Fatalf("%d of %d ApiClients are Ready, and nothing has changed for %s", len(ready), size, timeout)
		}
	}
}

// deleteClients stops the operator and deletes all ApiClients. The installation's cleanup would send
// one request per ApiClient.
func deleteClients(t testing.TB, inst *install.Installation, team string) {
	t.Helper()
	inst.StopOperator(t)
	deleteAll(t, inst, team, &v1beta1.ApiClient{})
}

// deleteAll deletes all objects of a kind. A request that takes too long gets a timeout from the API server, or its
// stream is reset. Then deleteAll sends another one.
func deleteAll(t testing.TB, inst *install.Installation, namespace string, kind client.Object) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute)
	defer stop()
	for {
		err := inst.Env.Client.DeleteAllOf(ctx, kind, client.InNamespace(namespace))
		if _, reset := errors.AsType[http2.StreamError](err); reset || apierrors.IsTimeout(err) {
			continue
		}
		if err != nil {
			t.Errorf("Failed to delete objects of type %T: %v", kind, err)
		}
		return
	}
}

// awaitHeartbeats waits until each token server has renewed its Lease the given number of times. By
// then, earlier work is complete and periodic work, such as the operator's check of the Leases, has
// run.
func awaitHeartbeats(t *testing.T, inst *install.Installation, times int) {
	t.Helper()
	for range times {
		last := renewals(t, inst)
		install.Eventually(t, "all token servers to renew their Leases", func() error {
			for name, now := range renewals(t, inst) {
				if now == last[name] {
					return fmt.Errorf("the Lease of %s still has version %s", name, now)
				}
			}
			return nil
		})
	}
}

func renewals(t *testing.T, inst *install.Installation) map[string]string {
	t.Helper()
	leases := &coordinationv1.LeaseList{}
	err := inst.Env.Client.List(t.Context(), leases, client.InNamespace(inst.RecordsNamespace), client.MatchingLabels{heartbeat.Label: heartbeat.LabelValue})
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]string{}
	for i := range leases.Items {
		at[leases.Items[i].Name] = leases.Items[i].ResourceVersion
	}
	return at
}

// reconcilesOf returns how many times the operator has reconciled ApiClients since it started.
func reconcilesOf(t *testing.T, inst *install.Installation) int {
	t.Helper()
	return reconcilesIn(t, inst.OperatorMetrics(t))
}

// reconcilesIn returns the number of reconciles of ApiClients in an operator's metrics.
func reconcilesIn(t *testing.T, metrics string) int {
	t.Helper()
	sum := 0
	for line := range strings.Lines(metrics) {
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

// writesByOperator returns the writes of the operator, without those of Leases.
func writesByOperator(t *testing.T, cluster *env.Env) []auditv1.Event {
	t.Helper()
	return slices.DeleteFunc(cluster.Writes(t), func(write auditv1.Event) bool {
		return !scenario.ByOperator(write) || write.ObjectRef.Resource == "leases"
	})
}

// secondStatuses returns how many ApiClients had their status written a second time. That happens if
// the token servers take longer to load a client than the operator waits before the first status,
// which depends on how busy the machine is.
func secondStatuses(writes []auditv1.Event) int {
	statuses, seconds := map[string]int{}, 0
	for _, write := range writes {
		if write.ObjectRef.Resource == "apiclients" && write.ObjectRef.Subresource == "status" {
			statuses[write.ObjectRef.Name]++
			if statuses[write.ObjectRef.Name] == 2 {
				seconds++
			}
		}
	}
	return seconds
}

// countWrites returns how many times the status of a Realm was written.
func countWrites(writes []auditv1.Event) int {
	count := 0
	for _, write := range writes {
		if write.ObjectRef.Resource == "realms" && write.ObjectRef.Subresource == "status" {
			count++
		}
	}
	return count
}

// summaryOf counts writes by verb, resource, and response code.
func summaryOf(writes []auditv1.Event) string {
	counts := map[string]int{}
	for _, write := range writes {
		of := write.ObjectRef
		counts[fmt.Sprintf("%s %s %d", write.Verb, strings.TrimSuffix(of.Resource+"/"+of.Subresource, "/"), write.ResponseStatus.Code)]++
	}
	var lines []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("  %d of %s", counts[kind], kind))
	}
	return strings.Join(lines, "\n")
}
