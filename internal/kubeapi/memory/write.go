package memory

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Status is the only subresource.
const Status = "status"

// WriteOptions are the options of a write.
type WriteOptions struct {
	// Manager is the field manager.
	Manager string
	// Subresource is Status, or empty for the object itself.
	Subresource string
	// Force takes fields from other managers. Only Apply uses it.
	Force bool
}

var (
	errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")
	errChanged  = errors.New("the object was deleted or created again")
)

// Create creates an object.
//
// The error is AlreadyExists if there is one, or that of Admit.
func (s *Store) Create(ctx context.Context, object *unstructured.Unstructured, o WriteOptions) (*unstructured.Unstructured, error) {
	r, err := s.resourceOf(object.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[r.GroupVersionResource][nameOf(object)] != nil {
		return nil, apierrors.NewAlreadyExists(r.GroupResource(), object.GetName())
	}
	if object.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	object = object.DeepCopy()
	if err := s.prepare(ctx, r, object); err != nil {
		return nil, err
	}
	managed, err := s.managed(r, empty(r), object, o)
	if err != nil {
		return nil, err
	}
	s.store(watch.Added, r.GroupVersionResource, managed)
	return managed, nil
}

// prepare sets the metadata and the defaults of a new object.
func (s *Store) prepare(ctx context.Context, r *Resource, object *unstructured.Unstructured) error {
	if len(object.GetFinalizers()) > 0 || object.GetGenerateName() != "" {
		return apierrors.NewBadRequest("finalizers and generated names are not supported")
	}
	object.SetUID(s.NewUID())
	object.SetCreationTimestamp(metav1.NewTime(s.Now().Truncate(time.Second)))
	if r.HasStatus {
		delete(object.Object, Status)
		object.SetGeneration(1)
	}
	return s.admit(ctx, r, object, nil)
}

// admit sets defaults, and returns an error if the object must be rejected.
func (s *Store) admit(ctx context.Context, r *Resource, object, before *unstructured.Unstructured) error {
	if r.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Secret") {
		if err := defaultSecret(object); err != nil {
			return err
		}
	}
	if s.Admit == nil {
		return nil
	}
	status, found := object.Object[Status]
	if err := s.Admit(ctx, object, before); err != nil {
		return err
	}
	if found {
		object.Object[Status] = status
	} else if before != nil {
		delete(object.Object, Status)
	}
	return nil
}

// defaultSecret sets the type of a Secret, and moves its stringData to its data.
func defaultSecret(secret *unstructured.Unstructured) error {
	if kind, _, _ := unstructured.NestedString(secret.Object, "type"); kind == "" {
		secret.Object["type"] = string(corev1.SecretTypeOpaque)
	}
	values, _, err := unstructured.NestedStringMap(secret.Object, "stringData")
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	for key, value := range values {
		if err := unstructured.SetNestedField(secret.Object, base64.StdEncoding.EncodeToString([]byte(value)), "data", key); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	delete(secret.Object, "stringData")
	return nil
}

// Update replaces an object, or its status.
//
// The error is NotFound, Conflict if the object states another resource version or UID than the stored
// one, or that of Admit.
func (s *Store) Update(ctx context.Context, object *unstructured.Unstructured, o WriteOptions) (*unstructured.Unstructured, error) {
	r, err := s.resourceOf(object.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	live, err := s.get(r.GroupVersionResource, nameOf(object))
	if err != nil {
		return nil, err
	}
	return s.update(ctx, r, live, object.DeepCopy(), o)
}

func (s *Store) update(ctx context.Context, r *Resource, live, object *unstructured.Unstructured, o WriteOptions) (*unstructured.Unstructured, error) {
	if version := object.GetResourceVersion(); version != "" && version != live.GetResourceVersion() {
		return nil, apierrors.NewConflict(r.GroupResource(), live.GetName(), errModified)
	}
	if uid := object.GetUID(); uid != "" && uid != live.GetUID() {
		return nil, apierrors.NewConflict(r.GroupResource(), live.GetName(), errChanged)
	}
	keep(r, live, object, o.Subresource)
	if o.Subresource == "" {
		if err := s.admit(ctx, r, object, live); err != nil {
			return nil, err
		}
	}
	managed, err := s.managed(r, live, object, o)
	if err != nil {
		return nil, err
	}
	return s.replace(r, live, managed, o), nil
}

// keep copies to object what a write of the subresource doesn't change.
func keep(r *Resource, live, object *unstructured.Unstructured, subresource string) {
	if subresource == Status {
		status, found := object.Object[Status]
		fields := object.GetManagedFields()
		object.Object = live.DeepCopy().Object
		object.SetManagedFields(fields)
		object.Object[Status] = status
		if !found {
			delete(object.Object, Status)
		}
		return
	}
	if status, ok := live.DeepCopy().Object[Status]; r.HasStatus && ok {
		object.Object[Status] = status
	} else if r.HasStatus {
		delete(object.Object, Status)
	}
	object.SetUID(live.GetUID())
	object.SetCreationTimestamp(live.GetCreationTimestamp())
	object.SetGeneration(live.GetGeneration())
}

// replace stores an object, unless nothing has changed.
func (s *Store) replace(r *Resource, live, object *unstructured.Unstructured, o WriteOptions) *unstructured.Unstructured {
	object.SetResourceVersion(live.GetResourceVersion())
	if o.Subresource == "" && r.HasStatus && !reflect.DeepEqual(specOf(live), specOf(object)) {
		object.SetGeneration(live.GetGeneration() + 1)
	}
	if reflect.DeepEqual(live.Object, object.Object) {
		return live
	}
	s.store(watch.Modified, r.GroupVersionResource, object)
	return object
}

// specOf returns the content of an object without its metadata and its status.
func specOf(object *unstructured.Unstructured) map[string]any {
	spec := map[string]any{}
	for name, value := range object.Object {
		if name != "metadata" && name != Status {
			spec[name] = value
		}
	}
	return spec
}

// Apply applies a configuration (server-side apply). It creates the object if there is none, unless the
// configuration has a UID or is that of a subresource.
//
// The error is Conflict if another manager owns a field and Force isn't set, and otherwise one of those of
// Create and Update.
func (s *Store) Apply(ctx context.Context, configuration *unstructured.Unstructured, o WriteOptions) (*unstructured.Unstructured, error) {
	r, err := s.resourceOf(configuration.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	live, err := s.get(r.GroupVersionResource, nameOf(configuration))
	switch {
	case err != nil && o.Subresource != "":
		return nil, err
	case err != nil:
		return s.createApplied(ctx, r, configuration, o)
	}
	if version := configuration.GetResourceVersion(); version != "" && version != live.GetResourceVersion() {
		return nil, apierrors.NewConflict(r.GroupResource(), live.GetName(), errModified)
	}
	if uid := configuration.GetUID(); uid != "" && uid != live.GetUID() {
		return nil, apierrors.NewConflict(r.GroupResource(), live.GetName(), errChanged)
	}
	object, err := s.applied(r, live, configuration, o)
	if err != nil {
		return nil, err
	}
	keep(r, live, object, o.Subresource)
	if o.Subresource == "" {
		if err := s.admit(ctx, r, object, live); err != nil {
			return nil, err
		}
	}
	return s.replace(r, live, object, o), nil
}

// createApplied creates the object of a configuration.
func (s *Store) createApplied(ctx context.Context, r *Resource, configuration *unstructured.Unstructured, o WriteOptions) (*unstructured.Unstructured, error) {
	if configuration.GetUID() != "" {
		return nil, apierrors.NewConflict(r.GroupResource(), configuration.GetName(), errChanged)
	}
	object, err := s.applied(r, empty(r), configuration, o)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, r, object); err != nil {
		return nil, err
	}
	s.store(watch.Added, r.GroupVersionResource, object)
	return object, nil
}

// Patch changes an object, or its status, with a JSON patch or a merge patch.
//
// The errors are those of Update, and Invalid if the patch can't be applied.
func (s *Store) Patch(ctx context.Context, gvr schema.GroupVersionResource, name types.NamespacedName, kind types.PatchType, patch []byte, o WriteOptions) (*unstructured.Unstructured, error) {
	r, err := s.Resource(gvr)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	live, err := s.get(gvr, name)
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(live.Object)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var changed []byte
	switch kind {
	case types.MergePatchType:
		changed, err = jsonpatch.MergePatch(content, patch)
	case types.JSONPatchType:
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch(patch); err == nil {
			changed, err = operations.Apply(content)
		}
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("patches of type %s are not supported", kind))
	}
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(422, "patch", gvr.GroupResource(), name.Name, strings.TrimSpace(err.Error()), 0, false)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(changed); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.update(ctx, r, live, object, o)
}

// Delete deletes an object.
//
// The error is NotFound, or Conflict if a precondition isn't met.
func (s *Store) Delete(gvr schema.GroupVersionResource, name types.NamespacedName, preconditions *metav1.Preconditions) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	live, err := s.get(gvr, name)
	if err != nil {
		return nil, err
	}
	if err := check(preconditions, live); err != nil {
		return nil, err
	}
	deleted := live.DeepCopy()
	s.store(watch.Deleted, gvr, deleted)
	return deleted, nil
}

// check returns a conflict, with the text of the API server, if an object doesn't meet the preconditions.
func check(p *metav1.Preconditions, live *unstructured.Unstructured) error {
	gvk := live.GroupVersionKind()
	resource := schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}
	switch {
	case p == nil:
	case p.UID != nil && *p.UID != live.GetUID():
		return apierrors.NewConflict(resource, live.GetName(), fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, live.GetUID())) //nolint:err113 // The text is the API server's.
	case p.ResourceVersion != nil && *p.ResourceVersion != live.GetResourceVersion():
		return apierrors.NewConflict(resource, live.GetName(), fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, live.GetResourceVersion())) //nolint:err113 // The text is the API server's.
	}
	return nil
}
