package namespaces

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Source returns a source that enqueues the requests returned by toRequests when a namespace's labels
// change. If namespaces are polled, it also does so when one is created or deleted.
func (n *Namespaces) Source(toRequests handler.MapFunc) source.Source {
	if n.all() {
		return source.Kind(n.cache, client.Object(&corev1.Namespace{}), handler.EnqueueRequestsFromMapFunc(toRequests), predicate.LabelChangedPredicate{},
			predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }})
	}
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go n.watch(ctx, func(name string) {
			for _, request := range toRequests(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}) {
				queue.Add(request)
			}
		})
		return nil
	})
}

// watch polls the named namespaces until ctx is done, and calls changed for each that has changed. Live
// reads them in the meantime, so watch compares with the state of its own last poll.
func (n *Namespaces) watch(ctx context.Context, changed func(name string)) {
	n.mu.Lock()
	seen := maps.Clone(n.polled)
	n.mu.Unlock()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for _, name := range n.names {
			before, known := seen[name]
			after, err := n.poll(ctx, name)
			if err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "Failed to read a namespace, will retry", "namespace", name)
				continue
			}
			seen[name] = after
			if known && changedNamespace(before, after) {
				changed(name)
			}
		}
	}, n.interval)
}

// changedNamespace reports whether a namespace was created or deleted or has other labels.
func changedNamespace(before, after *corev1.Namespace) bool {
	if before == nil || after == nil {
		return before != after
	}
	return before.UID != after.UID || !maps.Equal(before.Labels, after.Labels)
}
