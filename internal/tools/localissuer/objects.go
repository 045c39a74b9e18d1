package localissuer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/admission"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/memory"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/unknownfields"
	"github.com/realmkeeper/realmkeeper/internal/operator"
)

// key identifies an object.
type key struct {
	kind string
	types.NamespacedName
}

func (k key) String() string {
	if k.Namespace == "" {
		return k.kind + " " + k.Name
	}
	return k.kind + " " + k.NamespacedName.String()
}

func keyOf(object *unstructured.Unstructured) key {
	return key{object.GetKind(), client.ObjectKeyFromObject(object)}
}

// manager is the field manager of objects in files.
const manager = "files"

// Resources of the objects that the local issuer reads.
var (
	realmResource   = v1beta1.GroupVersion.WithResource("realms")
	clientResource  = v1beta1.GroupVersion.WithResource("apiclients")
	secretResource  = corev1.SchemeGroupVersion.WithResource("secrets")
	namespaces      = corev1.SchemeGroupVersion.WithResource("namespaces")
	accountResource = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	fileResources   = []schema.GroupVersionResource{namespaces, accountResource, secretResource, realmResource, clientResource}
)

// objects are the objects of the API: those in files, and what the operator and the token server write.
type objects struct {
	store     *memory.Store
	namespace string // of objects that have none
	order     []key  // of the ApiClients in the files
}

// loadRules and loadTypes do their work only once, because it takes most of the startup time.
var (
	loadRules  = sync.OnceValues(admission.Load)
	loadScheme = sync.OnceValues(operator.Scheme)
)

// newObjects returns an API with the given objects.
func newObjects(namespace string, saved []*unstructured.Unstructured) (*objects, error) {
	rules, err := loadRules()
	if err != nil {
		return nil, err
	}
	scheme, err := loadScheme()
	if err != nil {
		return nil, err
	}
	store, err := memory.New(memory.Options{
		Resources: memory.Resources(), Types: memory.Types(scheme), Admit: rules.Admit, Now: time.Now, NewUID: uuid.NewUUID,
	}, saved...)
	return &objects{store: store, namespace: namespace}, err
}

var (
	errTwice        = errors.New("the object is also in")
	errNoKind       = errors.New("no such kind")
	errUnknownField = errors.New("unknown field")
)

// apply replaces all objects of files with those of the documents, and returns the errors. An object with
// an error keeps its last admitted content.
func (o *objects) apply(ctx context.Context, documents []document) []error {
	found := map[key]string{}
	var errs []error
	var order []key
	for _, d := range documents {
		resource := o.resourceOf(d.object)
		if resource == nil {
			if kind := d.object.GroupVersionKind(); kind.Group == v1beta1.GroupVersion.Group || isOurs(kind.Kind) && strings.HasSuffix(kind.Group, "realmkeeper.dev") {
				errs = append(errs, fileError{d.file, fmt.Errorf("%w: %s %s; the kinds are Realm and ApiClient in version %s", errNoKind, d.object.GetAPIVersion(), kind.Kind, v1beta1.GroupVersion)})
			}
			continue
		}
		k := keyOf(d.object)
		if file, twice := found[k]; twice {
			errs = append(errs, fileError{d.file, fmt.Errorf("%s: %w %s", k, errTwice, file)})
			continue
		}
		found[k] = d.file
		unknown := unknownfields.Describe(d.object)
		if err := o.admit(ctx, resource, d.object); err != nil {
			errs = append(errs, fileError{d.file, err})
			for _, field := range unknown {
				errs = append(errs, fileError{d.file, fmt.Errorf("%s: %w: %s", k, errUnknownField, field)})
			}
		}
		if resource.GroupVersionResource == clientResource {
			order = append(order, k)
		}
	}
	o.order = order
	for _, resource := range fileResources {
		for _, object := range o.fromFilesOf(resource) {
			if _, ok := found[keyOf(object)]; !ok && !o.needsNamespace(object, found) {
				_, _ = o.store.Delete(resource, client.ObjectKeyFromObject(object), nil) // Only this function deletes it.
			}
		}
	}
	o.store.CollectGarbage()
	return errs
}

// isOurs reports whether a kind in a misspelled group is probably one of this API.
func isOurs(kind string) bool { return kind == "Realm" || kind == "ApiClient" }

// resourceOf returns the resource of an object, or nil if the local issuer doesn't read such objects. It
// sets the namespace of an object that needs one.
func (o *objects) resourceOf(object *unstructured.Unstructured) *memory.Resource {
	at := slices.IndexFunc(o.store.Resources, func(r memory.Resource) bool {
		return r.GroupVersionKind() == object.GroupVersionKind() && slices.Contains(fileResources, r.GroupVersionResource)
	})
	if at < 0 {
		return nil
	}
	resource := &o.store.Resources[at]
	if resource.Namespaced && object.GetNamespace() == "" {
		object.SetNamespace(o.namespace)
	}
	return resource
}

// admit creates or replaces an object, and creates its namespace.
func (o *objects) admit(ctx context.Context, resource *memory.Resource, object *unstructured.Unstructured) error {
	switch resource.GroupVersionResource {
	case secretResource:
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &corev1.Secret{}, true); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("Secret in version \"v1\" cannot be handled as a Secret: %v", err))
		}
	case namespaces:
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[corev1.LabelMetadataName] = object.GetName()
		object.SetLabels(labels)
	}
	if resource.Namespaced {
		if err := o.ensureNamespace(ctx, object.GetNamespace()); err != nil {
			return err
		}
	}
	options := memory.WriteOptions{Manager: manager}
	_, err := o.store.Create(ctx, object, options)
	if apierrors.IsAlreadyExists(err) {
		_, err = o.store.Update(ctx, object, options)
	}
	return err
}

// ensureNamespace creates a namespace unless it exists.
func (o *objects) ensureNamespace(ctx context.Context, name string) error {
	namespace := &unstructured.Unstructured{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	namespace.SetName(name)
	namespace.SetLabels(map[string]string{corev1.LabelMetadataName: name})
	_, err := o.store.Create(ctx, namespace, memory.WriteOptions{Manager: manager})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// needsNamespace reports whether an object is the namespace of one that was found.
func (o *objects) needsNamespace(object *unstructured.Unstructured, found map[key]string) bool {
	if object.GetKind() != "Namespace" {
		return false
	}
	for k := range found {
		if k.Namespace == object.GetName() {
			return true
		}
	}
	return false
}

// fromFilesOf returns the objects of a resource that come from files.
func (o *objects) fromFilesOf(resource schema.GroupVersionResource) []*unstructured.Unstructured {
	all, _ := o.store.List(resource, memory.Selection{})
	return slices.DeleteFunc(all, func(object *unstructured.Unstructured) bool {
		return !slices.ContainsFunc(object.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == manager })
	})
}

// fromFiles returns the keys of the Realms and ApiClients in the files.
func (o *objects) fromFiles() map[key]bool {
	keys := map[key]bool{}
	for _, resource := range []schema.GroupVersionResource{realmResource, clientResource} {
		for _, object := range o.fromFilesOf(resource) {
			keys[keyOf(object)] = true
		}
	}
	return keys
}

// revision returns the revision of the last change.
func (o *objects) revision() int64 {
	_, revision := o.store.List(realmResource, memory.Selection{})
	return revision
}

// realms returns the Realms, sorted by name.
func (o *objects) realms() []*v1beta1.Realm {
	return typed[v1beta1.Realm](o.fromFilesOf(realmResource))
}

// clients returns the ApiClients in the order of the files.
func (o *objects) clients() []*v1beta1.ApiClient {
	clients := typed[v1beta1.ApiClient](o.fromFilesOf(clientResource))
	slices.SortStableFunc(clients, func(a, b *v1beta1.ApiClient) int { return o.place(a) - o.place(b) })
	return clients
}

func (o *objects) place(c *v1beta1.ApiClient) int {
	return slices.Index(o.order, key{"ApiClient", client.ObjectKeyFromObject(c)})
}

func typed[T any](list []*unstructured.Unstructured) []*T {
	result := make([]*T, 0, len(list))
	for _, object := range list {
		t := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, t); err == nil { // It was admitted.
			result = append(result, t)
		}
	}
	return result
}

// secret returns a Secret, or nil if there is none.
func (o *objects) secret(namespace, name string) *corev1.Secret {
	object, err := o.store.Get(secretResource, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return nil
	}
	return typed[corev1.Secret]([]*unstructured.Unstructured{object})[0]
}

// inProgress reports whether the operator hasn't finished with an object, according to its Ready condition.
func inProgress(realms []*v1beta1.Realm, clients []*v1beta1.ApiClient) bool {
	waits := func(generation int64, conditions []metav1.Condition) bool {
		ready := meta.FindStatusCondition(conditions, string(v1beta1.ConditionReady))
		return ready == nil || ready.ObservedGeneration != generation || ready.Reason == string(v1beta1.ReasonProgressing) || ready.Reason == string(v1beta1.ReasonNoTokenServer)
	}
	return slices.ContainsFunc(realms, func(r *v1beta1.Realm) bool { return waits(r.Generation, r.Status.Conditions) }) ||
		slices.ContainsFunc(clients, func(c *v1beta1.ApiClient) bool { return waits(c.Generation, c.Status.Conditions) })
}
