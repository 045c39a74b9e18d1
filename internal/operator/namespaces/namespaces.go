// Package namespaces reports which namespaces the operator serves, and reads their labels.
package namespaces

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Namespaces reads the namespaces that the operator serves: all of them from a cache, or the named
// ones from the API server. The operator can't watch namespaces by name, so it polls them.
type Namespaces struct {
	cache cache.Cache
	live  client.Reader // bypasses the cache
	// names is empty if the operator serves all namespaces.
	names    []string
	interval time.Duration

	mu sync.Mutex
	// polled holds the latest state of each named namespace; nil if it doesn't exist.
	polled map[string]*corev1.Namespace
}

// New returns the named namespaces, or all namespaces if there are no names. Named namespaces are
// polled at the given interval.
func New(c cache.Cache, live client.Reader, names []string, interval time.Duration) *Namespaces {
	return &Namespaces{cache: c, live: live, names: names, interval: interval, polled: map[string]*corev1.Namespace{}}
}

// Get returns a namespace that the operator serves; nil if it doesn't exist or isn't served.
func (n *Namespaces) Get(ctx context.Context, name string) (*corev1.Namespace, error) {
	if n.all() {
		return read(ctx, n.cache, name)
	}
	n.mu.Lock()
	namespace, known := n.polled[name]
	n.mu.Unlock()
	if known {
		return namespace, nil
	}
	return n.Live(ctx, name)
}

// Live is like Get but always reads from the API server.
func (n *Namespaces) Live(ctx context.Context, name string) (*corev1.Namespace, error) {
	if n.all() {
		return read(ctx, n.live, name)
	}
	if !slices.Contains(n.names, name) {
		return nil, nil //nolint:nilnil // The operator doesn't serve it.
	}
	return n.poll(ctx, name)
}

// Serves reports whether the operator serves ApiClients in a namespace. It doesn't if the namespace
// isn't one of the named ones, or was deleted. If the operator serves all namespaces, the deletion of
// a namespace needs no attention because it deletes the ApiClients.
func (n *Namespaces) Serves(ctx context.Context, name string) (bool, error) {
	if n.all() {
		return true, nil
	}
	namespace, err := n.Get(ctx, name)
	return namespace != nil, err
}

// Gone reports whether a namespace was deleted or is being deleted, according to the API server. The
// operator loses its permissions in such a namespace, possibly before it sees the deletion of an
// ApiClient there. Gone returns false for a namespace that the operator may not read because it isn't one
// of the named ones.
func (n *Namespaces) Gone(ctx context.Context, name string) (bool, error) {
	namespace := &corev1.Namespace{}
	err := n.live.Get(ctx, client.ObjectKey{Name: name}, namespace)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading Namespace %q: %w", name, err)
	}
	return !namespace.DeletionTimestamp.IsZero(), nil
}

func (n *Namespaces) all() bool { return len(n.names) == 0 }

// poll reads a named namespace and remembers its state.
func (n *Namespaces) poll(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespace, err := read(ctx, n.live, name)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.polled[name] = namespace
	return namespace, nil
}

// read returns a namespace; nil if it doesn't exist. One that is being deleted still exists.
func read(ctx context.Context, from client.Reader, name string) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	err := from.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // A missing namespace is not an error.
	}
	if err != nil {
		return nil, fmt.Errorf("reading Namespace %q: %w", name, err)
	}
	return namespace, nil
}
