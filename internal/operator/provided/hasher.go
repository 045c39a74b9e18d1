package provided

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

const (
	// maxNamespaces and maxResults limit the memory for results. Results that no longer fit are
	// computed again when they are needed.
	maxNamespaces = 256
	maxResults    = 512
	// retryDelay is the time after which a client is reconciled again if the API server has a newer
	// version of its Secret than the cache.
	retryDelay = 200 * time.Millisecond
	// concurrency is the number of namespaces that are processed at the same time.
	concurrency = 4
	// readTimeout limits the read of a Secret, so that one that hangs delays no other namespace.
	readTimeout = 10 * time.Second
)

// Hasher hashes the values of provided Secrets in the background: one at a time for each namespace,
// namespaces in turn, and each value once. It reads a value when it is about to hash it, so it
// neither stores plain text nor hashes a value that has been replaced in the meantime.
type Hasher struct {
	*Digests

	live   client.Reader
	random io.Reader
	cores  chan struct{} // limits concurrent hashes

	namespaces workqueue.TypedInterface[string] // with waiting jobs
	results    *lru.Cache                       // of the results of each namespace

	mu      sync.Mutex
	waiting map[string]*jobs // by namespace
	clients workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// NewHasher returns a hasher that reads Secrets from the API server. The caller must start it.
func NewHasher(digests *Digests, live client.Reader, random io.Reader) *Hasher {
	return &Hasher{
		Digests: digests, live: live, random: random, results: lru.New(maxNamespaces),
		cores: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), waiting: map[string]*jobs{},
		namespaces: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "hashes"}),
	}
}

// Source returns a source that reconciles an ApiClient when the hash that it requested is known.
func (h *Hasher) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.clients = queue
		return nil
	})
}

// Lookup returns the result for the given version of a provided Secret, and whether it is known.
// recorded is the hash of the provided secret in the client's record; empty if there is none.
func (h *Hasher) Lookup(secret *corev1.Secret, key, recorded string) (Result, bool) {
	if _, ok := secret.Data[key]; !ok && secret.Data != nil {
		return Result{Err: ErrNoKey}, true
	}
	if result, known := h.recall(secret, h.byVersion(secret, key, recorded)); known {
		return result, true
	}
	if secret.Type != digested || secret.Data == nil {
		return Result{}, false
	}
	return h.recall(secret, h.byValue(secret, digest(secret.Data[key]), recorded))
}

// Request requests the result for a provided Secret. It replaces the client's previous request. The
// client is reconciled when the result is known.
func (h *Hasher) Request(client reconcile.Request, secret *corev1.Secret, key, recorded string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[client.Namespace] == nil {
		h.waiting[client.Namespace] = &jobs{byClient: map[reconcile.Request]job{}}
	}
	h.waiting[client.Namespace].put(job{client: client, secret: secret.Name, version: secret.ResourceVersion, key: key, recorded: recorded})
	h.namespaces.Add(client.Namespace)
}

// Forget withdraws the request of a client.
func (h *Hasher) Forget(client reconcile.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if waiting := h.waiting[client.Namespace]; waiting != nil {
		delete(waiting.byClient, client)
	}
}

// Start hashes until ctx is canceled. It uses at most half of the cores.
func (h *Hasher) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	for range concurrency {
		workers.Go(func() {
			for h.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	h.namespaces.ShutDown()
	workers.Wait()
	return nil
}

// next processes one job of the namespace whose turn it is. No other worker processes this
// namespace in the meantime.
func (h *Hasher) next(ctx context.Context) bool {
	namespace, stopped := h.namespaces.Get()
	if stopped || ctx.Err() != nil {
		return false
	}
	defer h.namespaces.Done(namespace)
	h.mu.Lock()
	j, more := h.waiting[namespace].pop()
	if more {
		h.namespaces.Add(namespace) // at the end of the queue
	} else {
		delete(h.waiting, namespace)
	}
	clients := h.clients
	h.mu.Unlock()
	if j.client == (reconcile.Request{}) {
		return true
	}
	switch current, err := h.process(ctx, j); {
	case err != nil:
		ctrl.LoggerFrom(ctx).Error(err, "Failed to hash a provided client secret, will retry", "namespace", namespace, "name", j.client.Name)
		clients.AddRateLimited(j.client)
	case current:
		clients.Add(j.client)
	default:
		clients.AddAfter(j.client, retryDelay)
	}
	return true
}

// process reads a Secret and stores the result. It reports whether the Secret has the version that
// the client has seen.
func (h *Hasher) process(ctx context.Context, j job) (bool, error) {
	secret, err := h.read(ctx, j)
	if err != nil || secret == nil {
		return false, err
	}
	value := h.of(secret, "value", string(secret.Data[j.key]))
	byValue, fresh := h.byValue(secret, value, j.recorded), h.byValue(secret, value, "")
	result, known := h.recall(secret, byValue)
	if !known {
		earlier, _ := h.recall(secret, fresh)
		h.cores <- struct{}{}
		result, err = Hash(secret.Data, j.key, j.recorded, earlier.Hash, h.random)
		<-h.cores
		if err != nil {
			return false, err
		}
	}
	h.remember(secret, h.byVersion(secret, j.key, j.recorded), result)
	if result.Err == nil {
		h.remember(secret, byValue, result)
	}
	if result.Err == nil && result.Hash != j.recorded {
		h.remember(secret, fresh, result)
	}
	return secret.ResourceVersion == j.version, nil
}

func (h *Hasher) recall(secret *corev1.Secret, key digest) (Result, bool) {
	if results, ok := h.results.Get(secret.Namespace); ok {
		if result, ok := results.(*lru.Cache).Get(key); ok {
			return result.(Result), true
		}
	}
	return Result{}, false
}

// remember stores a result. Only the worker that processes the namespace calls it.
func (h *Hasher) remember(secret *corev1.Secret, key digest, result Result) {
	if _, ok := h.results.Get(secret.Namespace); !ok {
		h.results.Add(secret.Namespace, lru.New(maxResults))
	}
	if results, ok := h.results.Get(secret.Namespace); ok {
		results.(*lru.Cache).Add(key, result)
	}
}

// read reads a Secret from the API server; nil if it doesn't exist or lacks the label. The label is
// part of the request, so the operator never gets the values of a Secret without it.
func (h *Hasher) read(ctx context.Context, j job) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	secrets := &corev1.SecretList{}
	err := h.live.List(ctx, secrets, client.InNamespace(j.client.Namespace), client.MatchingFields{"metadata.name": j.secret},
		client.MatchingLabels{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretProvided})
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s: %w", j.client.Namespace, j.secret, err)
	}
	if len(secrets.Items) == 0 {
		return nil, nil //nolint:nilnil // The controller reports a missing Secret.
	}
	return &secrets.Items[0], nil
}

func (h *Hasher) byVersion(secret *corev1.Secret, key, recorded string) digest {
	return h.of(secret, "version", secret.ResourceVersion, key, recorded)
}

func (h *Hasher) byValue(secret *corev1.Secret, value digest, recorded string) digest {
	return h.of(secret, "hash", string(value[:]), recorded)
}
