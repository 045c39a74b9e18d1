package recordstore

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
)

// Source returns a source that reconciles the owner of each changed record of the given kinds, and, after a
// deletion, also what deleted returns, unless it is nil. It reconciles the owners of all records at startup, to
// find orphans. A new list of unchanged records reconciles nothing. It is one source for all kinds, because the
// informer keeps a buffer for each handler.
func (s *Store) Source(deleted func(context.Context, *corev1.Secret) []reconcile.Request, kinds ...record.Kind) source.SyncingSource {
	type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(queue requests, obj client.Object) {
		if _, owner, ok := recordIn(obj, kinds...); ok {
			queue.Add(reconcile.Request{NamespacedName: owner})
		}
	}
	return source.Kind(s.Cache, client.Object(&corev1.Secret{}), handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue requests) { add(queue, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue requests) {
			add(queue, e.ObjectOld)
			add(queue, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue requests) {
			add(queue, e.Object)
			if secret, _, ok := recordIn(e.Object, kinds...); ok && deleted != nil {
				for _, request := range deleted(ctx, Unpack(secret)) {
					queue.Add(request)
				}
			}
		},
	}, predicate.ResourceVersionChangedPredicate{})
}
