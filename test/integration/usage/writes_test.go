package usage_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/realmkeeper/realmkeeper/internal/usage"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// writes describes all writes except those to Leases. If resource is set, it describes only the
// writes to this resource.
func (f *fleet) writes(t *testing.T, resource string) []string {
	t.Helper()
	var writes []string
	for _, w := range f.events(t) {
		if resource == "" || resourceOf(w) == resource {
			writes = append(writes, w.Verb+" "+resourceOf(w)+" "+w.ObjectRef.Name)
		}
	}
	return writes
}

// events returns the writes of the operator and the token servers, except those to Leases.
func (f *fleet) events(t *testing.T) []auditv1.Event {
	t.Helper()
	var events []auditv1.Event
	for _, w := range f.Env.Writes(t) {
		if w.ObjectRef.Resource != "leases" && (scenario.ByOperator(w) || strings.HasPrefix(w.UserAgent, "token-server/")) {
			events = append(events, w)
		}
	}
	return events
}

func resourceOf(w auditv1.Event) string {
	if w.ObjectRef.Subresource != "" {
		return w.ObjectRef.Resource + "/" + w.ObjectRef.Subresource
	}
	return w.ObjectRef.Resource
}

// checkWrites checks the documented limits since the first use.
func (f *fleet) checkWrites(t *testing.T) {
	t.Helper()
	var statuses []time.Time
	counts, perClient := map[string]int{}, map[string]int{}
	for _, w := range f.events(t) {
		if at := w.RequestReceivedTimestamp.Time; at.After(f.began) {
			counts[resourceOf(w)]++
			if resourceOf(w) == "apiclients/status" {
				statuses = append(statuses, at)
				perClient[w.ObjectRef.Name]++
			}
		}
	}
	elapsed := time.Since(f.began)
	perMinute := func(n int) string { return fmt.Sprintf("%.0f", float64(n)/elapsed.Minutes()) }
	t.Logf("in %s: %d writes of statuses (%s per minute), %d of reports (%s per minute)", elapsed.Round(time.Second),
		len(statuses), perMinute(len(statuses)), counts["configmaps"], perMinute(counts["configmaps"]))

	for _, window := range []time.Duration{2 * time.Second, time.Minute} {
		limit := writesPerSecond * int(window/time.Second+2) // two seconds more, because writes can be waiting
		for i := range statuses {
			if j := i + limit; j < len(statuses) && statuses[j].Sub(statuses[i]) < window {
				t.Errorf("more than %d writes of statuses within %s", limit, window)
				break
			}
		}
	}
	periods := int(usage.Truncate(time.Now(), f.resolution).Sub(usage.Truncate(f.began, f.resolution))/f.resolution) + 1
	for client, n := range perClient {
		if n > periods {
			t.Errorf("%d writes of the status of %s in %d periods", n, client, periods)
		}
	}
	// Each report of a server can be written and deleted once in each interval.
	if limit := 2 * servers * int(elapsed/usage.Interval(f.resolution)+1); counts["configmaps"] > limit {
		t.Errorf("%d writes of reports, want at most %d", counts["configmaps"], limit)
	}
	delete(counts, "configmaps")
	delete(counts, "apiclients/status")
	if len(counts) > 0 {
		t.Errorf("uses caused writes of other resources: %v", counts)
	}
}

// awaitReconciled waits until the operator has reconciled each client since it started, and compared
// all uses with the statuses.
func (f *fleet) awaitReconciled(t *testing.T) {
	t.Helper()
	for seen := -1; seen < *clients; {
		install.Eventually(t, "the operator to reconcile more ApiClients", func() error {
			now := 0
			for line := range strings.Lines(f.OperatorMetrics(t)) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
				if n, err := strconv.Atoi(value); err == nil && strings.HasPrefix(name, `controller_runtime_reconcile_total{controller="apiclient",`) {
					now += n
				}
			}
			if now <= seen {
				return fmt.Errorf("it has reconciled %d of %d", now, *clients)
			}
			seen = now
			return nil
		})
	}
	if got := f.OperatorMetric(t, `workqueue_depth{controller="apiclient",name="apiclient",priority=""}`); got != "" && got != "0" {
		t.Logf("%s ApiClients are queued", got)
	}
}
