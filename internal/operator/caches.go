package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/informers"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
)

// caches are the operator's caches: that of the manager, and two of the operator's own Secrets, which the
// manager's cache can't contain because it selects Secrets by a different label.
type caches struct {
	manager cache.Cache
	system  cache.Cache // the certificates
	records cache.Cache // the records and the beacon
	// recordInformer is the informer in records, and clientInformers are those of ApiClients in manager.
	recordInformer  toolscache.SharedIndexInformer
	clientInformers []toolscache.SharedIndexInformer

	mu sync.Mutex // guards clientInformers

	// The informers of the caches. Those of the records are separate, because the beacon is about them.
	objects       *informers.Set
	recordSecrets *informers.Set
	systemSecrets *informers.Set
}

func newCaches(ctx context.Context) *caches {
	return &caches{objects: informers.New(ctx), recordSecrets: informers.New(ctx), systemSecrets: informers.New(ctx)}
}

// add creates the caches and adds them to the manager, which starts them before an election.
func (c *caches) add(ctx context.Context, mgr ctrl.Manager, instance *config.Instance) (err error) {
	c.manager = mgr.GetCache()
	if c.system, err = secretCache(mgr, instance.SystemNamespace, managedByOperator(), nil, c.systemSecrets.NewInformer); err != nil {
		return err
	}
	c.records, err = secretCache(mgr, instance.RecordsNamespace, record.Selector(), recordstore.Pack, func(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		delete(indexers, toolscache.NamespaceIndex) // All records are in one.
		c.recordInformer = c.recordSecrets.NewInformer(lw, object, resync, indexers)
		return c.recordInformer
	})
	if err != nil {
		return err
	}
	if _, err = c.records.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("creating the informer of the records: %w", err)
	}
	return nil
}

// newObjectInformer returns an informer for the manager's cache.
func (c *caches) newObjectInformer(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	informer := c.objects.NewInformer(lw, object, resync, indexers)
	if _, ok := object.(*v1beta1.ApiClient); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.clientInformers = append(c.clientInformers, informer)
	}
	return informer
}

// countClients returns the number of ApiClients in the manager's cache so far.
func (c *caches) countClients() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, informer := range c.clientInformers {
		n += len(informer.GetStore().ListKeys())
	}
	return n
}

// clients returns the ApiClients in the manager's cache. The caller must not change them.
func (c *caches) clients(yield func(*v1beta1.ApiClient) bool) {
	c.mu.Lock()
	all := slices.Clone(c.clientInformers)
	c.mu.Unlock()
	for _, informer := range all {
		for _, object := range informer.GetStore().List() {
			if one, ok := object.(*v1beta1.ApiClient); ok && !yield(one) {
				return
			}
		}
	}
}

type newInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// watchAll makes the caches list all resources that the controllers watch before the election. They would otherwise
// list some of them only when the controllers start: an operator that can't would be ready, and lead.
func (c *caches) watchAll(ctx context.Context, served []string) error {
	accounts := &metav1.PartialObjectMetadata{}
	accounts.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	objects := []client.Object{
		&v1beta1.Realm{}, &v1beta1.Instance{}, accounts, &corev1.ConfigMap{}, &corev1.Service{}, &networkingv1.NetworkPolicy{},
		&policyv1.PodDisruptionBudget{}, &appsv1.Deployment{},
	}
	if len(served) == 0 {
		objects = append(objects, &corev1.Namespace{})
	}
	for _, object := range objects {
		if _, err := c.manager.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("adding the cache of %T: %w", object, err)
		}
	}
	if _, err := c.system.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("adding the cache of the certificates: %w", err)
	}
	return nil
}

// secretCache returns a cache of the operator's Secrets in one namespace: records or certificates.
func secretCache(mgr ctrl.Manager, namespace string, selector labels.Selector, strip toolscache.TransformFunc, newInformer newInformer) (cache.Cache, error) {
	secrets, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme:      mgr.GetScheme(),
		Mapper:      mgr.GetRESTMapper(),
		HTTPClient:  mgr.GetHTTPClient(),
		NewInformer: newInformer,
		// Nothing changes an object that it has read; see cacheOptions.
		DefaultUnsafeDisableDeepCopy: new(true),
		DefaultNamespaces:            map[string]cache.Config{namespace: {LabelSelector: selector, Transform: strip}},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the cache of the Secrets in namespace %s: %w", namespace, err)
	}
	if err := mgr.Add(startedCache{secrets}); err != nil {
		return nil, fmt.Errorf("adding the cache of the Secrets in namespace %s: %w", namespace, err)
	}
	return secrets, nil
}

var errNotSynced = errors.New("caches are not synced")

// synced is a readiness check.
func (c *caches) synced(r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if !c.waitForSync(ctx) {
		return errNotSynced
	}
	return nil
}

// waitForSync waits until the caches are synced, or ctx is done.
func (c *caches) waitForSync(ctx context.Context) bool {
	for _, one := range []cache.Cache{c.manager, c.system, c.records} {
		if !one.WaitForCacheSync(ctx) {
			return false
		}
	}
	return true
}
