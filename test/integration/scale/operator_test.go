//go:build scale

package scale_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// Limits that make scale checks for the operator.
const (
	maxCreation = 1.25 // times the time of the API server alone, until all ApiClients are Ready
	maxWrites   = 3.0  // for each new ApiClient
	maxMemory   = 15.0 // KiB for each ApiClient, including its share of all other memory
	maxRestart  = 10.0 // seconds for each 10,000 ApiClients, until all are reconciled
	// rounds is how often the creation is measured. Each measurement is compared with the time of the
	// API server alone, measured right afterwards, because the speed of shared machines changes.
	rounds = 3
)

// TestOperatorScale prints the cost of many ApiClients: the time until they are Ready, compared with
// the time of the same writes without the operator, the operator's memory, disruptions, and a restart.
func TestOperatorScale(t *testing.T) {
	cluster := env.Start(t)
	t.Setenv("GOGC", "50") // of the operator, as in the chart
	inst := scenario.Running(t, cluster)
	realm := install.Realm("acme")
	inst.Create(t, realm)
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	t.Cleanup(func() { inst.StopOperator(t) })

	total := 0
	for _, clients := range []int{1000, 5000} {
		if clients <= *size {
			total += measureCreation(t, inst, realm.Name, clients, total)
		}
	}
	if total < *size {
		create(t, inst, realm.Name, *size-total, total)
		total = *size
	}
	awaitHeartbeats(t, inst, 2)
	perClient := memory(t, inst) / float64(total) / (1 << 10)
	addRow(t, perClient <= maxMemory, fmt.Sprintf("operator, memory with %d ApiClients", total), fmt.Sprintf("%.1f KiB for each", perClient), fmt.Sprintf("at most %.0f KiB", maxMemory))

	measureStorage(t, inst)
	measureStatuses(t, inst, total)
	measureRestart(t, inst, total)
}

// measureCreation creates ApiClients in several rounds and returns their number.
func measureCreation(t *testing.T, inst *install.Installation, realm string, clients, existing int) int {
	t.Helper()
	var ratios []float64
	writes, created := 0, 0
	for range rounds {
		awaitQuiet(t)
		before := operatorWrites(t, inst)
		began := time.Now()
		namespace := create(t, inst, realm, clients, existing+created)
		took := time.Since(began)
		created += clients
		awaitHeartbeats(t, inst, 1)
		writes += operatorWrites(t, inst) - before

		ready := &v1beta1.ApiClient{}
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "client-0"}, ready); err != nil {
			t.Fatal(err)
		}
		api := newAPIAlone(t, inst, ready)
		inst.StopOperator(t)
		alone := api.time(t, clients)
		inst.StartOperator(t, "")
		awaitReady(t, inst, realm, existing+created)
		t.Logf("%d ApiClients: Ready after %.1f s; the API alone takes %.1f s", clients, took.Seconds(), alone.Seconds())
		ratios = append(ratios, took.Seconds()/alone.Seconds())
	}
	ratio, all := median(ratios)
	addRow(t, ratio <= maxCreation, fmt.Sprintf("%d ApiClients until Ready, against the API alone", clients), fmt.Sprintf("%.2f times (%s)", ratio, all), fmt.Sprintf("at most %.2f times", maxCreation))
	each := float64(writes) / float64(created)
	addRow(t, each <= maxWrites*1.01, fmt.Sprintf("%d ApiClients, writes of the operator", clients), fmt.Sprintf("%.2f for each", each), fmt.Sprintf("at most %.0f", maxWrites))
	return created
}

// create creates ApiClients in a new namespace, which it returns, and waits until all are Ready.
func create(t *testing.T, inst *install.Installation, realm string, clients, existing int) (namespace string) {
	t.Helper()
	namespace = inst.Env.Namespace(t)
	t.Cleanup(func() {
		inst.StopOperator(t)
		deleteAll(t, inst, namespace, &v1beta1.ApiClient{})
	})
	parallel(clients, func(n int) {
		if err := inst.Env.Client.Create(t.Context(), install.ApiClient(namespace, fmt.Sprintf("client-%d", n), realm)); err != nil {
			t.Errorf("Failed to create an ApiClient: %v", err)
		}
	})
	awaitReady(t, inst, realm, existing+clients)
	return namespace
}

// awaitReady waits until the given number of ApiClients are Ready according to the operator's
// metrics, which cost less than another watch. It reads the metrics less often while many are
// missing, because the operator counts its ApiClients for each read.
func awaitReady(t *testing.T, inst *install.Installation, realm string, clients int) {
	t.Helper()
	series := fmt.Sprintf(`realmkeeper_clients{realm=%q,state="Ready"}`, realm)
	for last, changed := 0, time.Now(); last != clients; {
		<-time.After(50*time.Millisecond + min(time.Duration(clients-last)*300*time.Microsecond, 2*time.Second))
		if now, _ := strconv.Atoi(inst.OperatorMetric(t, series)); now != last {
			last, changed = now, time.Now()
		}
		if time.Since(changed) > time.Minute {
			t.Fatalf("%d of %d ApiClients are Ready, and nothing has changed for a minute", last, clients)
		}
	}
}

// measureRestart restarts the operator, and waits until it has reconciled all ApiClients.
func measureRestart(t *testing.T, inst *install.Installation, clients int) {
	t.Helper()
	inst.StopOperator(t)
	before := len(writesByOperator(t, inst.Env))
	began := time.Now()
	inst.StartOperator(t, "")
	for tick := time.Tick(250 * time.Millisecond); reconcilesOf(t, inst) < clients; <-tick {
		if time.Since(began) > 10*time.Minute {
			t.Fatalf("the restarted operator has not reconciled %d ApiClients", clients)
		}
	}
	took := time.Since(began).Seconds() * 10_000 / float64(clients)
	awaitHeartbeats(t, inst, 2)
	writes := len(writesByOperator(t, inst.Env)) - before
	perClient := memory(t, inst) / float64(clients) / (1 << 10)
	addRow(t, writes == 0, fmt.Sprintf("restart with %d ApiClients, writes", clients), strconv.Itoa(writes), "none")
	addRow(t, took <= maxRestart, fmt.Sprintf("restart with %d ApiClients, all reconciled", clients), fmt.Sprintf("%.1f s for 10,000", took), fmt.Sprintf("at most %.0f s", maxRestart))
	addRow(t, perClient <= maxMemory, "operator, memory after the restart", fmt.Sprintf("%.1f KiB for each", perClient), fmt.Sprintf("at most %.0f KiB", maxMemory))
}

// operatorWrites returns how many requests of the operator tried to change an object since it
// started.
func operatorWrites(t *testing.T, inst *install.Installation) int {
	t.Helper()
	writes := 0
	for line := range strings.Lines(inst.OperatorMetrics(t)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		labels, ok := strings.CutPrefix(name, "rest_client_requests_total{")
		if !ok || strings.Contains(labels, `method="GET"`) {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		writes += n
	}
	return writes
}

// memory returns the bytes of memory that the operator uses.
func memory(t *testing.T, inst *install.Installation) float64 {
	t.Helper()
	bytes, err := strconv.ParseFloat(inst.OperatorMetric(t, "process_resident_memory_bytes"), 64)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
