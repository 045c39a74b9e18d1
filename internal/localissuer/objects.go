package localissuer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/localissuer/admission"
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

// Kinds of objects that the local issuer reads.
const (
	kindRealm          = "Realm"
	kindClient         = "ApiClient"
	kindSecret         = "Secret"
	kindNamespace      = "Namespace"
	kindServiceAccount = "ServiceAccount"
)

// objects are the objects that have been admitted.
type objects struct {
	rules     *admission.Rules
	state     *state
	namespace string // of objects that have none
	now       func() time.Time

	admitted map[key]*unstructured.Unstructured // the last admitted content
	realms   map[key]*v1alpha1.Realm
	clients  map[key]*v1alpha1.ApiClient
	secrets  map[key]*corev1.Secret
	accounts map[key]types.UID
	labels   map[string]map[string]string // of namespaces in files
	order    []key                        // of the clients in the files
}

func newObjects(rules *admission.Rules, s *state, namespace string, now func() time.Time) *objects {
	return &objects{
		rules: rules, state: s, namespace: namespace, now: now, admitted: map[key]*unstructured.Unstructured{},
		realms: map[key]*v1alpha1.Realm{}, clients: map[key]*v1alpha1.ApiClient{}, secrets: map[key]*corev1.Secret{},
		accounts: map[key]types.UID{}, labels: map[string]map[string]string{},
	}
}

var errTwice = errors.New("the object is also in")

// apply replaces all objects with those of the documents, and returns the errors. An object with an
// error keeps its last admitted content.
func (o *objects) apply(ctx context.Context, documents []document) []error {
	found := map[key]string{}
	var errs []error
	o.order = nil
	for _, d := range documents {
		k, known := o.identify(d.object)
		if !known {
			continue
		}
		if file, twice := found[k]; twice {
			errs = append(errs, fileError{d.file, fmt.Errorf("%s: %w %s", k, errTwice, file)})
			continue
		}
		found[k] = d.file
		if err := o.admit(ctx, k, d.object); err != nil {
			errs = append(errs, fileError{d.file, err})
		}
		if o.clients[k] != nil {
			o.order = append(o.order, k)
		}
	}
	for k := range o.admitted {
		if _, ok := found[k]; !ok {
			o.remove(k)
		}
	}
	return errs
}

// identify returns the key of an object, and whether the local issuer reads objects of its kind. It
// sets the namespace of an object that needs one.
func (o *objects) identify(object *unstructured.Unstructured) (key, bool) {
	gvk := object.GroupVersionKind()
	var known, namespaced bool
	switch {
	case o.rules.Has(gvk):
		known, namespaced = true, o.rules.Namespaced(gvk)
	case gvk.GroupVersion() == schema.GroupVersion{Version: "v1"}:
		namespaced = gvk.Kind == kindSecret || gvk.Kind == kindServiceAccount
		known = namespaced || gvk.Kind == kindNamespace
	}
	if namespaced && object.GetNamespace() == "" {
		object.SetNamespace(o.namespace)
	}
	return key{gvk.Kind, client.ObjectKeyFromObject(object)}, known
}

func (o *objects) admit(ctx context.Context, k key, object *unstructured.Unstructured) error {
	content := object.DeepCopy()
	if gvk := object.GroupVersionKind(); o.rules.Has(gvk) {
		if err := o.rules.Admit(ctx, object, o.admitted[k]); err != nil {
			return err
		}
		content = object.DeepCopy()
	}
	object.SetUID(o.state.uid(k))
	object.SetCreationTimestamp(o.created(k))
	var err error
	switch k.kind {
	case kindRealm:
		err = put(o.realms, k, object, func(after, before *v1alpha1.Realm) { after.Status = before.Status })
	case kindClient:
		err = put(o.clients, k, object, func(after, before *v1alpha1.ApiClient) { after.Status = before.Status })
	case kindSecret:
		err = o.admitSecret(k, object)
	case kindNamespace:
		o.labels[k.Name] = object.GetLabels()
	case kindServiceAccount:
		o.accounts[k] = object.GetUID()
	}
	if err != nil {
		return err
	}
	o.admitted[k] = content
	return nil
}

// created returns the creation time of a Realm or an ApiClient, which is now if the object is new.
func (o *objects) created(k key) metav1.Time {
	switch {
	case o.realms[k] != nil:
		return o.realms[k].CreationTimestamp
	case o.clients[k] != nil:
		return o.clients[k].CreationTimestamp
	}
	return metav1.NewTime(o.now().Truncate(time.Second))
}

// put converts an object to its Go type and stores it. keep copies the fields that a new version
// keeps from the previous one.
func put[T any](into map[key]*T, k key, object *unstructured.Unstructured, keep func(after, before *T)) error {
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return err
	}
	if before := into[k]; before != nil {
		keep(typed, before)
	}
	into[k] = typed
	return nil
}

// admitSecret stores a Secret. Its resource version changes with its content. It is a timestamp, so
// that it is higher than the versions of earlier processes.
func (o *objects) admitSecret(k key, object *unstructured.Unstructured) error {
	secret := &corev1.Secret{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, secret, true); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("Secret in version \"v1\" cannot be handled as a Secret: %v", err))
	}
	for name, value := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[name] = []byte(value)
	}
	secret.StringData = nil
	secret.ResourceVersion = strconv.FormatInt(o.now().UnixNano(), 10)
	if before := o.secrets[k]; before != nil {
		secret.CreationTimestamp = before.CreationTimestamp
		if reflect.DeepEqual(before.Data, secret.Data) && maps.Equal(before.Labels, secret.Labels) {
			secret.ResourceVersion = before.ResourceVersion
		}
	}
	o.secrets[k] = secret
	return nil
}

func (o *objects) remove(k key) {
	delete(o.admitted, k)
	delete(o.realms, k)
	delete(o.clients, k)
	delete(o.secrets, k)
	delete(o.accounts, k)
	if k.kind == kindNamespace {
		delete(o.labels, k.Name)
	}
	o.state.forget(k)
}

// newUID returns a random UID.
func newUID() types.UID { return uuid.NewUUID() }

// namespaces returns the labels of the namespaces in files and of the namespaces that contain
// objects.
func (o *objects) namespaces() map[string]map[string]string {
	all := map[string]map[string]string{}
	for k := range o.admitted {
		if k.Namespace != "" {
			all[k.Namespace] = map[string]string{corev1.LabelMetadataName: k.Namespace}
		}
	}
	for name, labels := range o.labels {
		all[name] = map[string]string{corev1.LabelMetadataName: name}
		maps.Copy(all[name], labels)
	}
	return all
}
