package recordstore

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
)

// Source returns a source that reconciles the owner of each changed record of the given kinds, and, after a
// deletion, also what deleted returns, unless it is nil. It reconciles the owners of all records at startup, to
// find orphans. A new list of unchanged records reconciles nothing.
func (s *Store) Source(deleted func(context.Context, *corev1.Secret) []reconcile.Request, kinds ...record.Kind) source.SyncingSource {
	return &changes{store: s, deleted: deleted, kinds: kinds}
}

// changes is one handler for all kinds, because the informer keeps a buffer for each handler.
type changes struct {
	store        *Store
	deleted      func(context.Context, *corev1.Secret) []reconcile.Request
	kinds        []record.Kind
	registration toolscache.ResourceEventHandlerRegistration
}

// Start is called by the controller.
func (c *changes) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) (err error) {
	add := func(obj any) {
		if _, owner, ok := recordIn(obj, c.kinds...); ok {
			queue.Add(reconcile.Request{NamespacedName: owner})
		}
	}
	c.registration, err = c.store.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: add,
		UpdateFunc: func(before, after any) {
			if versionOf(before) != versionOf(after) {
				add(before)
				add(after)
			}
		},
		DeleteFunc: func(obj any) {
			if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = missed.Obj
			}
			add(obj)
			if secret, _, ok := recordIn(obj, c.kinds...); ok && c.deleted != nil {
				for _, request := range c.deleted(ctx, Unpack(secret)) {
					queue.Add(request)
				}
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching records: %w", err)
	}
	return nil
}

// WaitForSync is called by the controller.
func (c *changes) WaitForSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), c.registration.HasSynced) {
		return fmt.Errorf("waiting for the records: %w", context.Cause(ctx))
	}
	return nil
}

func versionOf(obj any) string {
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return ""
	}
	return secret.ResourceVersion
}
