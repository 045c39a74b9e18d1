package simulation

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/realmkeeper/realmkeeper/internal/kubeapi/memory"
)

func notFound(gvr schema.GroupVersionResource, name types.NamespacedName) error {
	return apierrors.NewNotFound(gvr.GroupResource(), name.Name)
}

// resourceFor returns the resource of an object or of a list.
func (a *api) resourceFor(object runtime.Object) *memory.Resource {
	gvk, err := apiutil.GVKForObject(object, a.scheme)
	if err != nil {
		panic(err)
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	for i := range a.store.Resources {
		if r := &a.store.Resources[i]; r.GroupVersionKind() == gvk {
			return r
		}
	}
	panic("the model has no resource for " + gvk.String())
}

// decode copies an object of the API into a typed one.
func decode(from *unstructured.Unstructured, into client.Object) error {
	if metadata, ok := into.(*metav1.PartialObjectMetadata); ok {
		gvk := metadata.GroupVersionKind()
		defer metadata.SetGroupVersionKind(gvk)
	}
	reflect.ValueOf(into).Elem().SetZero()
	return runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, into)
}

func (a *api) encode(object runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	if u.GetKind() == "" {
		u.SetGroupVersionKind(a.resourceFor(object).GroupVersionKind())
	}
	return u, nil
}

// live reads from the API server and writes to it.
type live struct {
	client.Client // for what the model lacks

	api  *api
	from *process
}

func (l *live) Scheme() *runtime.Scheme { return l.api.scheme }

func (l *live) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if _, ok := into.(*corev1.Pod); ok {
		return l.from.world.pod(key)
	}
	r := l.api.resourceFor(into)
	o := (&client.GetOptions{}).ApplyOptions(options)
	cached := o.Raw != nil && o.Raw.ResourceVersion == "0"
	object, err := l.object(ctx, "GET", r, key, nil, func() (*unstructured.Unstructured, error) {
		return l.api.get(r.GroupVersionResource, key, cached)
	})
	if err != nil {
		return err
	}
	return decode(object, into)
}

// pod returns an error if there is no Pod with the name: its process has ended. Pods aren't in the store.
func (w *world) pod(key client.ObjectKey) error {
	for _, s := range w.servers {
		if podName(s.name) == key.Name && !s.dead {
			return nil
		}
	}
	return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
}

// object sends a request whose answer is an object.
func (l *live) object(ctx context.Context, verb string, r *memory.Resource, key client.ObjectKey, body any, land func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	result, err := l.api.send(ctx, &request{from: l.from, verb: verb, resource: r.GroupVersionResource, name: key, body: body, land: func() (any, error) {
		object, err := land()
		return object, err
	}})
	if err != nil {
		return nil, err
	}
	return result.(*unstructured.Unstructured), nil
}

func (l *live) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	r := l.api.resourceFor(list)
	o := (&client.ListOptions{}).ApplyOptions(options)
	result, err := l.api.send(ctx, &request{from: l.from, verb: "LIST", resource: r.GroupVersionResource, land: func() (any, error) {
		objects, _ := l.api.store.List(r.GroupVersionResource, memory.Selection{Namespace: o.Namespace, Labels: o.LabelSelector, Fields: o.FieldSelector})
		return objects, nil
	}})
	if err != nil {
		return err
	}
	var items []runtime.Object
	for _, object := range result.([]*unstructured.Unstructured) {
		item, err := l.api.scheme.New(r.GroupVersionKind())
		if err != nil {
			return err
		}
		if err := decode(object, item.(client.Object)); err != nil {
			return err
		}
		items = append(items, item)
	}
	return meta.SetList(list, items)
}

func (l *live) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	r := l.api.resourceFor(object)
	o := (&client.CreateOptions{}).ApplyOptions(options)
	desired, err := l.api.encode(object)
	if err != nil {
		return err
	}
	delete(desired.Object, "status")
	created, err := l.object(ctx, "POST", r, client.ObjectKeyFromObject(object), desired.Object, func() (*unstructured.Unstructured, error) {
		return l.api.store.Create(context.Background(), desired, memory.WriteOptions{Manager: o.FieldManager})
	})
	if err != nil {
		return err
	}
	return decode(created, object)
}

func (l *live) Apply(ctx context.Context, desired runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	o := (&client.ApplyOptions{}).ApplyOptions(options)
	return l.apply(ctx, "APPLY", desired, memory.WriteOptions{Manager: o.FieldManager, Force: o.Force != nil && *o.Force})
}

// apply applies a configuration, and sets its resource version as the client of controller-runtime does.
func (l *live) apply(ctx context.Context, verb string, desired runtime.ApplyConfiguration, o memory.WriteOptions) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(desired)
	if err != nil {
		return err
	}
	configuration := &unstructured.Unstructured{Object: content}
	key := client.ObjectKeyFromObject(configuration)
	r := l.api.resourceFor(configuration)
	l.from.checkConditional(verb, r, configuration)
	applied, err := l.object(ctx, verb, r, key, configuration.Object, func() (*unstructured.Unstructured, error) {
		return l.api.store.Apply(context.Background(), configuration, o)
	})
	if err != nil {
		return err
	}
	switch desired := desired.(type) {
	case *corev1ac.SecretApplyConfiguration:
		desired.WithResourceVersion(applied.GetResourceVersion())
	case *coordinationv1ac.LeaseApplyConfiguration:
		desired.WithResourceVersion(applied.GetResourceVersion())
	}
	return nil
}

func (l *live) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	r, key := l.api.resourceFor(object), client.ObjectKeyFromObject(object)
	o := (&client.PatchOptions{}).ApplyOptions(options)
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	patched, err := l.object(ctx, "PATCH", r, key, string(data), func() (*unstructured.Unstructured, error) {
		return l.api.store.Patch(context.Background(), r.GroupVersionResource, key, patch.Type(), data, memory.WriteOptions{Manager: o.FieldManager})
	})
	if err != nil {
		return err
	}
	return decode(patched, object)
}

func (l *live) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	r, key := l.api.resourceFor(object), client.ObjectKeyFromObject(object)
	o := (&client.DeleteOptions{}).ApplyOptions(options)
	_, err := l.object(ctx, "DELETE", r, key, nil, func() (*unstructured.Unstructured, error) {
		return l.api.store.Delete(r.GroupVersionResource, key, o.Preconditions)
	})
	return err
}

func (l *live) Status() client.SubResourceWriter { return status{live: l} }

type status struct {
	client.SubResourceWriter

	live *live
}

func (s status) Apply(ctx context.Context, desired runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	o := &client.SubResourceApplyOptions{}
	o.ApplyOpts(options)
	return s.live.apply(ctx, "STATUS", desired, memory.WriteOptions{Manager: o.FieldManager, Subresource: memory.Status, Force: o.Force != nil && *o.Force})
}

// informers is a cache of an operator. Each resource has a watch of its own, so the resources are not
// equally fresh.
type informers struct {
	cache.Cache // for what the model lacks

	api *api

	mu      sync.Mutex // guards objects
	objects map[schema.GroupVersionKind]map[types.NamespacedName]client.Object
	index   map[string]client.IndexerFunc // by kind and field
	handler map[schema.GroupVersionKind][]toolscache.ResourceEventHandler
	// changed is called after each event.
	changed func(before, after client.Object)
}

func newInformers(a *api) *informers {
	return &informers{
		api: a, objects: map[schema.GroupVersionKind]map[types.NamespacedName]client.Object{},
		index: map[string]client.IndexerFunc{}, handler: map[schema.GroupVersionKind][]toolscache.ResourceEventHandler{},
		changed: func(client.Object, client.Object) {},
	}
}

// watch lists the selected objects and opens a watch of them.
func (c *informers) watch(owner *process, what string, gvk schema.GroupVersionKind, selection memory.Selection) {
	r := c.api.resourceFor(&unstructured.Unstructured{Object: map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind}})
	c.objects[gvk] = map[types.NamespacedName]client.Object{}
	objects, revision := c.api.store.List(r.GroupVersionResource, selection)
	for _, object := range objects {
		c.set(gvk, object)
	}
	c.api.open(&stream{owner: owner, what: what, gvr: r.GroupVersionResource, selection: selection, at: revision, deliver: func(e memory.Event) {
		if e.Type == "DELETED" {
			before := c.put(gvk, client.ObjectKeyFromObject(e.Object), nil)
			for _, h := range c.handler[gvk] {
				h.OnDelete(before)
			}
			c.changed(before, nil)
			return
		}
		c.set(gvk, e.Object)
	}})
}

func (c *informers) set(gvk schema.GroupVersionKind, object *unstructured.Unstructured) {
	typed, err := c.api.scheme.New(gvk)
	if err != nil {
		panic(err)
	}
	after := typed.(client.Object)
	if err := decode(object, after); err != nil {
		panic(err)
	}
	before := c.put(gvk, client.ObjectKeyFromObject(after), after)
	for _, h := range c.handler[gvk] {
		if before == nil {
			h.OnAdd(after, false)
		} else {
			h.OnUpdate(before, after)
		}
	}
	c.changed(before, after)
}

// put stores an object, or deletes it if it is nil, and returns the one before.
func (c *informers) put(gvk schema.GroupVersionKind, key types.NamespacedName, after client.Object) (before client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before = c.objects[gvk][key]
	c.objects[gvk][key] = after
	if after == nil {
		delete(c.objects[gvk], key)
	}
	return before
}

func (c *informers) kindOf(object runtime.Object) schema.GroupVersionKind {
	return c.api.resourceFor(object).GroupVersionKind()
}

func (c *informers) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	r := c.api.resourceFor(into)
	c.mu.Lock()
	defer c.mu.Unlock()
	object, ok := c.objects[r.GroupVersionKind()][key]
	if !ok {
		return notFound(r.GroupVersionResource, key)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(object.DeepCopyObject()).Elem())
	return nil
}

func (c *informers) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	gvk := c.kindOf(list)
	o := (&client.ListOptions{}).ApplyOptions(options)
	c.mu.Lock()
	defer c.mu.Unlock()
	var items []runtime.Object
	for _, key := range sortedKeys(c.objects[gvk]) {
		object := c.objects[gvk][key]
		if c.selects(gvk, o, object) {
			items = append(items, object.DeepCopyObject())
		}
	}
	return meta.SetList(list, items)
}

func (c *informers) selects(gvk schema.GroupVersionKind, o *client.ListOptions, object client.Object) bool {
	if o.Namespace != "" && o.Namespace != object.GetNamespace() || o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	if o.FieldSelector == nil {
		return true
	}
	for _, requirement := range o.FieldSelector.Requirements() {
		found := false
		for _, value := range c.index[gvk.Kind+"/"+requirement.Field](object) {
			found = found || value == requirement.Value
		}
		if !found {
			return false
		}
	}
	return true
}

func (c *informers) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	c.index[c.kindOf(object).Kind+"/"+field] = extract
	return nil
}

func (c *informers) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return informer{cache: c, gvk: c.kindOf(object)}, nil
}

type informer struct {
	cache.Informer

	cache *informers
	gvk   schema.GroupVersionKind
}

// AddEventHandler adds a handler. It must be called before the cache contains objects.
func (i informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.cache.handler[i.gvk] = append(i.cache.handler[i.gvk], handler)
	return registration{}, nil
}

// recordInformer is the informer of an operator's records.
type recordInformer struct {
	toolscache.SharedIndexInformer

	informer
	indexers toolscache.Indexers
}

func (c *informers) recordInformer() toolscache.SharedIndexInformer {
	return &recordInformer{informer: informer{cache: c, gvk: corev1.SchemeGroupVersion.WithKind("Secret")}}
}

func (i *recordInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.informer.AddEventHandler(handler)
}

func (i *recordInformer) AddIndexers(indexers toolscache.Indexers) error {
	i.indexers = indexers
	return nil
}

func (i *recordInformer) GetIndexer() toolscache.Indexer { return recordIndexer{of: i} }

type recordIndexer struct {
	toolscache.Indexer

	of *recordInformer
}

func (i recordIndexer) GetByKey(key string) (any, bool, error) {
	namespace, name, _ := strings.Cut(key, "/")
	i.of.cache.mu.Lock()
	defer i.of.cache.mu.Unlock()
	object, exists := i.of.cache.objects[i.of.gvk][types.NamespacedName{Namespace: namespace, Name: name}]
	return object, exists, nil
}

func (i recordIndexer) ByIndex(index, value string) ([]any, error) {
	i.of.cache.mu.Lock()
	defer i.of.cache.mu.Unlock()
	var objects []any
	for _, key := range sortedKeys(i.of.cache.objects[i.of.gvk]) {
		object := i.of.cache.objects[i.of.gvk][key]
		if values, err := i.of.indexers[index](object); err == nil && slices.Contains(values, value) {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

func (i recordIndexer) IndexKeys(index, value string) ([]string, error) {
	objects, err := i.ByIndex(index, value)
	return make([]string, len(objects)), err
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration
}

func (registration) HasSynced() bool { return true }

// cachedClient reads from the cache and writes to the API server, like that of a manager.
type cachedClient struct {
	*live

	cache *informers
}

func (c cachedClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	return c.cache.Get(ctx, key, into, options...)
}

func (c cachedClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return c.cache.List(ctx, list, options...)
}

// checkConditional panics if an operator changes a Secret without a precondition (S12).
func (p *process) checkConditional(verb string, r *memory.Resource, desired *unstructured.Unstructured) {
	if verb == "APPLY" && r.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Secret") && desired.GetResourceVersion() == "" {
		p.world.violate(fmt.Errorf("S12: %s writes %s without the resource version that its decision is based on", p.name, p.world.api.nameOf(r.GroupVersionResource, client.ObjectKeyFromObject(desired))))
	}
}
