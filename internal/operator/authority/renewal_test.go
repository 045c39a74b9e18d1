package authority_test

import (
	"context"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

func TestProgress(t *testing.T) {
	withPrevious := func(lifetimes ...time.Duration) *instance {
		i := created(t)
		for _, lifetime := range lifetimes {
			i.ca.Previous = append(i.ca.Previous, newCA(t, start, lifetime).Leaf)
		}
		return i
	}
	limited := &instance{ca: &authority.Authority{Current: usersCAWith(t, &x509.Certificate{NotBefore: start, NotAfter: start.Add(10 * day), MaxPathLenZero: true})}}
	limited.plan(t, start)

	const outdated, at = 3, 250 * day
	for name, test := range map[string]struct {
		of       *instance
		at       time.Duration
		outdated int
		reason   v1alpha1.ConditionReason // empty: no condition
		contains string
	}{
		"no renewal":                        {created(t), at, 0, "", ""},
		"published":                         {published(t), publishAfter, 0, v1alpha1.ReasonCAPublished, "signs from 2026-11-24T12:00:00Z"},
		"published, Secrets are written":    {published(t), publishAfter, outdated, v1alpha1.ReasonCAPublished, "signs from 2026-11-24T12:00:00Z"},
		"published, cannot be cross-signed": {limited, 0, 0, v1alpha1.ReasonCAPublished, "path length"},
		"outdated after the overlap":        {published(t), moveAfter, outdated, v1alpha1.ReasonCredentialsOutdated, "3 credentials Secrets"},
		"moved":                             {withPrevious(300 * day), at, 0, v1alpha1.ReasonCAReplaced, "contain 1 previous"},
		"moved twice":                       {withPrevious(300*day, 280*day), at, 0, v1alpha1.ReasonCAReplaced, "the last one on 2026-12-26"},
		"outdated after the move":           {withPrevious(280*day, 300*day), at, outdated, v1alpha1.ReasonCredentialsOutdated, "the last one on 2026-12-26"},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.of.ca.Progress(start.Add(test.at), test.outdated, policy)
			if got == nil {
				got = &condition.Result{}
			}
			if got.Reason != test.reason || !strings.Contains(got.Message, test.contains) {
				t.Errorf("%+v, want %s with %q", got, test.reason, test.contains)
			}
			if want := test.reason != v1alpha1.ReasonCredentialsOutdated; test.reason != "" && (got.Status == metav1.ConditionTrue) != want {
				t.Errorf("status %s", got.Status)
			}
		})
	}
}

// Realms are enqueued when the result becomes known or changes, and not otherwise.
func TestRenewalEnqueuesRealmsOnChanges(t *testing.T) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	realms := func(context.Context) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "acme"}}}
	}
	enqueued := func() int {
		n := queue.Len()
		for range n {
			request, _ := queue.Get()
			queue.Done(request)
		}
		return n
	}
	var renewal authority.Renewal
	if _, known := renewal.Result(); known {
		t.Error("the result is known before it is set")
	}
	if err := renewal.Source(realms).Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	result := func(message string) *condition.Result {
		r := condition.NotReady(v1alpha1.ReasonCAUnusable, message)
		return &r
	}
	for n, step := range []struct {
		result *condition.Result
		want   int
	}{{nil, 1}, {nil, 0}, {result("a"), 1}, {result("a"), 0}, {result("b"), 1}, {nil, 1}} {
		renewal.Set(t.Context(), step.result)
		if got := enqueued(); got != step.want {
			t.Errorf("step %d: %d Realms enqueued, want %d", n, got, step.want)
		}
		if got, known := renewal.Result(); !known || got != step.result {
			t.Errorf("step %d: result %v, known %t", n, got, known)
		}
	}
}
