package providedsecrets

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxWaiting limits the callers that hash or wait for a core, so that they occupy only a part of the
// controller's workers.
const maxWaiting = 8

// Hasher hashes the values of provided Secrets on at most half of the cores. Each namespace has one
// place, and the cores go to the namespaces in the order in which they came, so a tenant with many
// Secrets delays another one by a hash at most. It is safe for concurrent use.
type Hasher struct {
	live   client.Reader
	random io.Reader
	cores  *semaphore.Weighted

	mu   sync.Mutex
	busy map[string]bool // namespaces that have a place
}

// NewHasher returns a hasher that reads Secrets from the API server.
func NewHasher(live client.Reader, random io.Reader) *Hasher {
	cores := max(1, runtime.GOMAXPROCS(0)/2)
	return &Hasher{live: live, random: random, cores: semaphore.NewWeighted(int64(cores)), busy: map[string]bool{}}
}

// Hash reads a provided Secret and hashes the value of key, as the function Hash does. It returns the
// identity of the version that it has read. It returns nil if there is no place, or if the Secret does
// not exist or lacks the label that allows the operator to read it; the caller must try again later.
func (h *Hasher) Hash(ctx context.Context, name types.NamespacedName, key, recorded string) (*corev1.Secret, Result, error) {
	if !h.enter(name.Namespace) {
		return nil, Result{}, nil
	}
	defer h.leave(name.Namespace)
	secret, err := Read(ctx, h.live, name)
	if err != nil || secret == nil {
		return nil, Result{}, err
	}
	if err := h.cores.Acquire(ctx, 1); err != nil {
		return nil, Result{}, fmt.Errorf("waiting to hash Secret %s: %w", name, err)
	}
	defer h.cores.Release(1)
	result, err := Hash(secret.Data, key, recorded, h.random)
	return Identity(secret), result, err
}

// enter takes the place of a namespace, and reports whether there is one.
func (h *Hasher) enter(namespace string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy[namespace] || len(h.busy) >= maxWaiting {
		return false
	}
	h.busy[namespace] = true
	return true
}

func (h *Hasher) leave(namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.busy, namespace)
}
