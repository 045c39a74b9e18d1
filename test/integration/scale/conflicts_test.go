package scale_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// conflicting is the number of ApiClients that others change while the operator writes their status.
const conflicting = 16

// wantConflicts is the number of conflicts that the test waits for.
const wantConflicts = 3

// Others change and delete ApiClients while the operator writes. The resulting conflicts are retried,
// and appear neither as errors in the log nor in the metric of failed reconciles.
func TestConflictsAreNotErrors(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	team := cluster.Namespace(t)
	inst.Create(t, install.Realm("acme"))
	var changing sync.WaitGroup
	enough := make(chan struct{})
	for n := range conflicting {
		c := install.ApiClient(team, fmt.Sprintf("client-%d", n), "acme")
		inst.Create(t, c)
		changing.Go(func() {
			changeUntil(t, inst, c, enough)
			if n%2 > 0 {
				return
			}
			if err := inst.Env.Client.Delete(t.Context(), c.DeepCopy()); err != nil {
				t.Errorf("Failed to delete %s: %v", c.Name, err)
			}
		})
	}
	install.Eventually(t, "the operator to have conflicts", func() error {
		if n := conflictsOf(t, inst); n < wantConflicts {
			return fmt.Errorf("it had %d", n)
		}
		return nil
	})
	close(enough)
	changing.Wait()
	for n := 1; n < conflicting; n += 2 {
		c := &v1alpha1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: fmt.Sprintf("client-%d", n)}}
		inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	}
	t.Logf("The operator had %d conflicts", conflictsOf(t, inst))
	// On a very busy machine, requests can also fail for other reasons.
	others := 0
	for line := range bytes.Lines(inst.OperatorLog(t)) {
		if !bytes.Contains(line, []byte(`"level":"error"`)) {
			continue
		}
		if isConflict(line) {
			t.Errorf("the operator logged %s", line)
		} else if bytes.Contains(line, []byte("Reconciler error")) {
			others++
		}
	}
	if got := inst.OperatorMetric(t, `controller_runtime_reconcile_errors_total{controller="apiclient"}`); got != strconv.Itoa(others) {
		t.Errorf("the operator counts %q failed reconciles, and logged %d that were no conflicts", got, others)
	}
}

// isConflict reports whether a line of the log is about a write that was based on a stale read.
func isConflict(line []byte) bool {
	return slices.ContainsFunc([]string{"has been modified", "already exists", "not found", "was deleted", "Precondition failed"}, func(text string) bool {
		return bytes.Contains(line, []byte(text))
	})
}

// changeUntil changes an ApiClient again and again until the channel is closed.
func changeUntil(t *testing.T, inst *install.Installation, c *v1alpha1.ApiClient, enough <-chan struct{}) {
	t.Helper()
	for i := 0; ; i++ {
		select {
		case <-enough:
			return
		case <-t.Context().Done():
			return
		default:
		}
		patch := fmt.Sprintf(`{"spec":{"description":"%d"}}`, i)
		if err := inst.Env.Client.Patch(t.Context(), c.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil && t.Context().Err() == nil {
			t.Errorf("Failed to change %s: %v", c.Name, err)
		}
	}
}

// conflictsOf returns how many requests of the operator the API server has rejected with a conflict.
func conflictsOf(t *testing.T, inst *install.Installation) int {
	t.Helper()
	total := 0
	for line := range strings.Lines(inst.OperatorMetrics(t)) {
		if !strings.HasPrefix(line, `rest_client_requests_total{code="409"`) {
			continue
		}
		n, err := strconv.Atoi(line[strings.LastIndex(line, " ")+1 : len(line)-1])
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return total
}
