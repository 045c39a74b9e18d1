package memory

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// managed returns the changed object with updated managed fields.
func (s *Store) managed(r *Resource, live, changed *unstructured.Unstructured, o WriteOptions) (*unstructured.Unstructured, error) {
	manager, err := s.fieldManager(r, o)
	if err != nil {
		return nil, err
	}
	return unstructuredOf(manager.Update(live, changed, o.Manager))
}

// applied returns an object after a configuration was applied to it.
func (s *Store) applied(r *Resource, live, configuration *unstructured.Unstructured, o WriteOptions) (*unstructured.Unstructured, error) {
	manager, err := s.fieldManager(r, o)
	if err != nil {
		return nil, err
	}
	return unstructuredOf(manager.Apply(live, configuration, o.Manager, o.Force))
}

func unstructuredOf(object runtime.Object, err error) (*unstructured.Unstructured, error) {
	if err != nil {
		return nil, err
	}
	return object.(*unstructured.Unstructured).DeepCopy(), nil
}

func (s *Store) fieldManager(r *Resource, o WriteOptions) (*managedfields.FieldManager, error) {
	if o.Subresource != "" && (o.Subresource != Status || !r.HasStatus) {
		return nil, apierrors.NewNotFound(r.GroupResource(), o.Subresource)
	}
	reset := map[fieldpath.APIVersion]*fieldpath.Set{}
	if r.HasStatus {
		version := fieldpath.APIVersion(r.GroupVersion().String())
		reset[version] = fieldpath.NewSet(fieldpath.MakePathOrDie(Status))
		if o.Subresource == Status {
			reset[version] = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata"))
		}
	}
	manager, err := managedfields.NewDefaultFieldManager(s.Types, oneVersion{}, oneVersion{}, oneVersion{}, r.GroupVersionKind(), r.GroupVersion(), o.Subresource, fieldpath.NewExcludeFilterSetMap(reset))
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return manager, nil
}

// empty returns an object without content.
func empty(r *Resource) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(r.GroupVersionKind())
	return object
}

// oneVersion converts, sets defaults of, and creates objects for managed fields. Each resource has only
// one version, and its defaults are set when the object is admitted.
type oneVersion struct{}

func (oneVersion) Convert(_, _, _ any) error {
	return runtime.NewNotRegisteredErrForTarget("", nil, nil)
}

func (oneVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (oneVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (oneVersion) Default(runtime.Object) {}

func (oneVersion) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(kind)
	return object, nil
}
