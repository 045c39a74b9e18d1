package operator

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
	"github.com/realmkeeper/realmkeeper/internal/operator/informers"
)

// A new leader waits for its caches, unless no process has led since before they began to list the objects.
func TestBarrier(t *testing.T) {
	for name, transitions := range map[string]int32{"no process has led": 1, "another process has led": 2} {
		t.Run(name, func(t *testing.T) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: leader.LeaseName, UID: "1"}}
			c := fake.NewClientBuilder().WithScheme(testkit.Value(Scheme())(t)).WithObjects(lease).Build()
			set, asked := informers.New(t.Context()), make(chan struct{})
			set.NewInformer(&toolscache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				close(asked)
				return nil, errors.New("no API server")
			}}, &corev1.Secret{}, 0, nil)
			b := &barrier{candidate: &leader.Candidate{Client: c, Live: c, Namespace: "system"}, informers: []*informers.Set{set}, passed: make(chan struct{})}
			b.vacant = b.candidate.Vacant(t.Context())
			testkit.Do(t, c.Get(t.Context(), client.ObjectKeyFromObject(lease), lease))
			lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = new("operator-0_1"), &transitions
			testkit.Do(t, c.Update(t.Context(), lease))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { _ = b.catchUp(ctx) }()
			passed := false
			select {
			case <-asked:
			case <-b.passed:
				passed = true
			case <-time.After(time.Minute):
			}
			if want := transitions == 1; passed != want {
				t.Errorf("passed without waiting: %t, want %t", passed, want)
			}
		})
	}
}
