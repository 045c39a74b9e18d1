// Package memory is a Kubernetes API in memory, for programs and tests that run the operator and the
// token server without a cluster. It has the operations that these use: create, update, patch,
// server-side apply, and delete with preconditions, and lists and watches. It responds to everything else
// with an error.
//
// The Store is the API without a network and without goroutines. Transport makes it the server of an
// ordinary client.
package memory

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
)

// historySize is the number of events that a watch can start from.
const historySize = 10_000

// Resource describes a resource of the API.
type Resource struct {
	schema.GroupVersionResource

	Kind       string
	Namespaced bool
	// HasStatus reports whether the resource has a subresource "status", and a generation.
	HasStatus bool
}

// GroupVersionKind returns the kind of the resource's objects.
func (r *Resource) GroupVersionKind() schema.GroupVersionKind {
	return r.GroupVersion().WithKind(r.Kind)
}

// Options configures a Store. All fields but Admit are required.
type Options struct {
	Resources []Resource
	// Types knows the fields of the resources' objects.
	Types managedfields.TypeConverter
	// Admit sets the defaults of an object that is created or changed, and returns an error if it must be
	// rejected. before is nil for a new object, whose status Admit can set. It is not called for
	// subresources.
	Admit  func(ctx context.Context, object, before *unstructured.Unstructured) error
	Now    func() time.Time
	NewUID func() types.UID

	historySize int // historySize, except in tests
}

// Store contains the objects of the API. All writes are consistent: each one increments the revision,
// which is the resource version of the object that it writes. A Store is safe for concurrent use.
//
// Objects that it returns must not be modified.
type Store struct {
	Options

	mu       sync.Mutex
	revision int64
	objects  map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured
	history  []Event
	changed  chan struct{} // closed by the next write
}

// Event is one change of an object.
type Event struct {
	// Type is watch.Added, watch.Modified, or watch.Deleted.
	Type     watch.EventType
	Resource schema.GroupVersionResource
	// Object is the object after the change. A deleted object is in its last state, with the revision of
	// the deletion.
	Object *unstructured.Unstructured
	// Before is the object before a modification; otherwise nil.
	Before   *unstructured.Unstructured
	Revision int64
}

// New returns a Store with the given objects, such as those that Objects returned. They keep their UIDs
// and resource versions.
func New(o Options, objects ...*unstructured.Unstructured) (*Store, error) {
	s := &Store{Options: o, revision: 1, objects: map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured{}, changed: make(chan struct{})}
	for i := range o.Resources {
		s.objects[o.Resources[i].GroupVersionResource] = map[types.NamespacedName]*unstructured.Unstructured{}
	}
	for _, object := range objects {
		r, err := s.resourceOf(object.GroupVersionKind())
		if err != nil {
			return nil, err
		}
		revision, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
		if err != nil {
			return nil, apierrors.NewBadRequest("invalid resource version: " + err.Error())
		}
		s.revision = max(s.revision, revision)
		s.objects[r.GroupVersionResource][nameOf(object)] = object
	}
	return s, nil
}

// Resource returns a resource of the API.
func (s *Store) Resource(gvr schema.GroupVersionResource) (*Resource, error) {
	at := slices.IndexFunc(s.Resources, func(r Resource) bool { return r.GroupVersionResource == gvr })
	if at < 0 {
		return nil, apierrors.NewNotFound(gvr.GroupResource(), "")
	}
	return &s.Resources[at], nil
}

func (s *Store) resourceOf(gvk schema.GroupVersionKind) (*Resource, error) {
	at := slices.IndexFunc(s.Resources, func(r Resource) bool { return r.GroupVersionKind() == gvk })
	if at < 0 {
		return nil, apierrors.NewBadRequest("there is no resource for " + gvk.String())
	}
	return &s.Resources[at], nil
}

// Objects returns all objects.
func (s *Store) Objects() []*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*unstructured.Unstructured
	for i := range s.Resources {
		all = append(all, s.list(s.Resources[i].GroupVersionResource, Selection{})...)
	}
	return all
}

// Get returns an object.
//
// The error is NotFound if there is none.
func (s *Store) Get(gvr schema.GroupVersionResource, name types.NamespacedName) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(gvr, name)
}

func (s *Store) get(gvr schema.GroupVersionResource, name types.NamespacedName) (*unstructured.Unstructured, error) {
	object := s.objects[gvr][name]
	if object == nil {
		return nil, apierrors.NewNotFound(gvr.GroupResource(), name.Name)
	}
	return object, nil
}

// Selection selects objects of a resource. The zero value selects all.
type Selection struct {
	Namespace string          // empty: all namespaces
	Labels    labels.Selector // nil: all
	// Fields can contain metadata.name and metadata.namespace; nil: all.
	Fields fields.Selector
}

func (o Selection) includes(object *unstructured.Unstructured) bool {
	return object != nil && (o.Namespace == "" || o.Namespace == object.GetNamespace()) &&
		(o.Labels == nil || o.Labels.Matches(labels.Set(object.GetLabels()))) &&
		(o.Fields == nil || o.Fields.Matches(fields.Set{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()}))
}

// List returns the selected objects, sorted by namespace and name, and the revision of the list.
func (s *Store) List(gvr schema.GroupVersionResource, selection Selection) (objects []*unstructured.Unstructured, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list(gvr, selection), s.revision
}

func (s *Store) list(gvr schema.GroupVersionResource, selection Selection) []*unstructured.Unstructured {
	var selected []*unstructured.Unstructured
	for _, object := range s.objects[gvr] {
		if selection.includes(object) {
			selected = append(selected, object)
		}
	}
	slices.SortFunc(selected, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return selected
}

// Since returns the events of all resources after a revision, and a channel that is closed by the next
// write.
//
// The error is Expired if the events are no longer known.
func (s *Store) Since(revision int64) (events []Event, next <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, _ := slices.BinarySearchFunc(s.history, revision+1, func(e Event, revision int64) int { return cmp.Compare(e.Revision, revision) })
	if first == 0 && revision+1 < s.oldest() {
		return nil, nil, apierrors.NewResourceExpired("too old resource version: " + strconv.FormatInt(revision, 10))
	}
	return slices.Clone(s.history[first:]), s.changed, nil
}

// oldest returns the oldest revision in the history, or the next revision if the history is empty.
func (s *Store) oldest() int64 {
	if len(s.history) == 0 {
		return s.revision + 1
	}
	return s.history[0].Revision
}

// Select returns the event that a watch of the selected objects reports for a change, and whether there is
// one. An object that begins or ceases to be selected is added or deleted.
func (o Selection) Select(e Event) (Event, bool) {
	switch before, after := e.Before, e.Object; {
	case e.Type != watch.Modified:
		return e, o.includes(after)
	case o.includes(before) && o.includes(after):
		return e, true
	case o.includes(after):
		e.Type = watch.Added
		return e, true
	case o.includes(before):
		e.Type, e.Object = watch.Deleted, before.DeepCopy()
		e.Object.SetResourceVersion(strconv.FormatInt(e.Revision, 10))
		return e, true
	}
	return e, false
}

// store writes an object, or deletes it.
func (s *Store) store(kind watch.EventType, gvr schema.GroupVersionResource, object *unstructured.Unstructured) {
	s.revision++
	object.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	event := Event{Type: kind, Resource: gvr, Object: object, Revision: s.revision}
	if kind == watch.Modified {
		event.Before = s.objects[gvr][nameOf(object)]
	}
	s.objects[gvr][nameOf(object)] = object
	if kind == watch.Deleted {
		delete(s.objects[gvr], nameOf(object))
	}
	s.history = append(s.history, event)
	if limit := cmp.Or(s.historySize, historySize); len(s.history) > limit {
		s.history = slices.Clone(s.history[len(s.history)-limit/2:])
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// CollectGarbage deletes the objects whose owners don't exist.
func (s *Store) CollectGarbage() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.collect() > 0 {
	}
}

func (s *Store) collect() (deleted int) {
	existing := sets.New[types.UID]()
	for _, objects := range s.objects {
		for _, object := range objects {
			existing.Insert(object.GetUID())
		}
	}
	for gvr := range s.objects {
		for _, object := range s.list(gvr, Selection{}) {
			owners := object.GetOwnerReferences()
			if len(owners) > 0 && !slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return existing.Has(o.UID) }) {
				s.store(watch.Deleted, gvr, object.DeepCopy())
				deleted++
			}
		}
	}
	return deleted
}

func nameOf(object *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
