package authority

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
)

// Reader reads the bundle of the managed CA.
type Reader struct {
	system    cache.Cache
	live      client.Reader // bypasses the cache
	namespace string
	// last is the last Secret that was decoded. Every reconcile of an ApiClient reads the bundle, and
	// decoding takes longer than the rest of most reconciles.
	last atomic.Pointer[decoded]
}

type decoded struct {
	kind      corev1.SecretType
	data      map[string][]byte
	authority *Authority
	bundle    []byte // nil: the CA is unusable
	err       error  // wraps ErrUnusable, or nil
}

// NewReader returns a Reader. system is a cache of the operator's Secrets in the system namespace.
func NewReader(system cache.Cache, live client.Reader, namespace string) *Reader {
	return &Reader{system: system, live: live, namespace: namespace}
}

// Bundle returns the certificates that clients must trust in PEM format, or nil if there is no usable
// CA.
func (r *Reader) Bundle(ctx context.Context) ([]byte, error) {
	d, err := r.read(ctx)
	if d == nil || err != nil {
		return nil, err
	}
	return d.bundle, nil
}

// Authority returns the CA, or nil if there is none. The error wraps ErrUnusable if the CA can't be used.
func (r *Reader) Authority(ctx context.Context) (*Authority, error) {
	d, err := r.read(ctx)
	if d == nil || err != nil {
		return nil, err
	}
	return d.authority, d.err
}

// read returns nil if there is no Secret.
func (r *Reader) read(ctx context.Context) (*decoded, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: r.namespace, Name: SecretName}
	err := r.system.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		err = r.live.Get(ctx, key, secret) // a CA that a user created lacks the label that the cache selects
	}
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // There is no CA yet.
	}
	if err != nil {
		return nil, fmt.Errorf("reading the managed CA: %w", err)
	}
	return r.decode(secret), nil
}

func (r *Reader) decode(secret *corev1.Secret) *decoded {
	last := r.last.Load()
	if last == nil || last.kind != secret.Type || !maps.EqualFunc(last.data, secret.Data, bytes.Equal) {
		last = decode(secret)
		r.last.Store(last)
	}
	return last
}

func decode(secret *corev1.Secret) *decoded {
	d := &decoded{kind: secret.Type, data: secret.Data}
	if d.authority, d.err = Decode(secret); d.authority != nil {
		d.bundle = pki.Encode(d.authority.Bundle())
	}
	return d
}

// Source returns a source that enqueues the given requests when the bundle changes, but not for the bundle that
// exists when the controller starts.
func (r *Reader) Source(requests func(context.Context) []reconcile.Request) source.SyncingSource {
	enqueue := func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for _, request := range requests(ctx) {
			queue.Add(request)
		}
	}
	return source.Kind(r.system, client.Object(&corev1.Secret{}), handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if !e.IsInInitialList {
				enqueue(ctx, queue)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if !bytes.Equal(decode(e.ObjectOld.(*corev1.Secret)).bundle, decode(e.ObjectNew.(*corev1.Secret)).bundle) {
				enqueue(ctx, queue)
			}
		},
	}, predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetName() == SecretName }))
}
