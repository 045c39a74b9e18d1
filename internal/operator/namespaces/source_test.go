package namespaces_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/namespaces"
)

// A change of a named namespace is announced, also if a reconcile has read the namespace before the poll.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		team := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Labels: map[string]string{"tier": "gold"}}}
		c := fake.NewClientBuilder().WithObjects(team).Build()
		n := namespaces.New(nil, c, []string{"team"}, time.Minute)
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		source := n.Source(func(_ context.Context, o client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
		})
		testkit.Do(t, source.Start(t.Context(), queue))
		time.Sleep(time.Second)
		team.Labels = nil
		testkit.Do(t, c.Update(t.Context(), team))
		if got, err := n.Live(t.Context(), "team"); err != nil || len(got.Labels) > 0 {
			t.Fatalf("namespace %+v, error %v", got, err)
		}
		time.Sleep(time.Minute)
		if queue.Len() != 1 {
			t.Errorf("%d requests, want 1", queue.Len())
		}
	})
}
