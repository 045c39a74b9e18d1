package feed

import (
	"cmp"
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/usereport"
)

// Client accesses the objects in the records namespace that a token server uses. Its methods are those of
// client-go's typed clients, which would add all API groups of Kubernetes to the token server.
type Client struct {
	Secrets    Secrets
	Leases     Leases
	ConfigMaps usereport.ConfigMaps

	core rest.Interface
}

// Secrets reads the records and the beacon.
type Secrets interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error)
	List(ctx context.Context, o metav1.ListOptions) (*corev1.SecretList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// Leases accesses the heartbeat Leases.
type Leases interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*coordinationv1.Lease, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
}

// NewClient returns a client for a records namespace. It uses the content type and the rate limit of cfg.
func NewClient(cfg *rest.Config, namespace string) (Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme)); err != nil {
		return Client{}, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, rest.DefaultKubernetesUserAgent())
	cfg.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme, serializer.NewCodecFactory(scheme)).WithoutConversion()
	connections, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return Client{}, err
	}
	cfg.APIPath, cfg.GroupVersion = "/api", &corev1.SchemeGroupVersion
	core, err := rest.RESTClientForConfigAndClient(cfg, connections)
	if err != nil {
		return Client{}, err
	}
	cfg.APIPath, cfg.GroupVersion = "/apis", &coordinationv1.SchemeGroupVersion
	coordination, err := rest.RESTClientForConfigAndClient(cfg, connections)
	if err != nil {
		return Client{}, err
	}
	parameters := runtime.NewParameterCodec(scheme)
	return Client{
		Secrets:    secrets{objects[corev1.Secret, *corev1.Secret]{core, parameters, namespace, "secrets"}},
		Leases:     objects[coordinationv1.Lease, *coordinationv1.Lease]{coordination, parameters, namespace, "leases"},
		ConfigMaps: objects[corev1.ConfigMap, *corev1.ConfigMap]{core, parameters, namespace, "configmaps"},
		core:       core,
	}, nil
}

// GetKeys returns the response of the API server at a path with keys, or with an issuer's metadata.
func (c *Client) GetKeys(ctx context.Context, path string) ([]byte, error) {
	return c.core.Get().AbsPath(path).SetHeader("Accept", "application/json, application/jwk-set+json").DoRaw(ctx)
}

// objects accesses the objects of one resource in a namespace.
type objects[T any, P interface {
	*T
	runtime.Object
	metav1.Object
}] struct {
	api                 rest.Interface
	parameters          runtime.ParameterCodec
	namespace, resource string
}

func (c objects[T, P]) do(ctx context.Context, r *rest.Request, o runtime.Object) (P, error) {
	object := P(new(T))
	err := r.Namespace(c.namespace).Resource(c.resource).VersionedParams(o, c.parameters).Do(ctx).Into(object)
	return object, err
}

// Get returns an object.
func (c objects[T, P]) Get(ctx context.Context, name string, o metav1.GetOptions) (P, error) {
	return c.do(ctx, c.api.Get().Name(name), &o)
}

// Create creates an object.
func (c objects[T, P]) Create(ctx context.Context, object P, o metav1.CreateOptions) (P, error) {
	return c.do(ctx, c.api.Post().Body(object), &o)
}

// Update updates an object.
func (c objects[T, P]) Update(ctx context.Context, object P, o metav1.UpdateOptions) (P, error) {
	return c.do(ctx, c.api.Put().Name(object.GetName()).Body(object), &o)
}

// Patch patches an object.
func (c objects[T, P]) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (P, error) {
	return c.do(ctx, c.api.Patch(kind).Name(name).SubResource(subresources...).Body(data), &o)
}

// Delete deletes an object.
func (c objects[T, P]) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return c.api.Delete().Namespace(c.namespace).Resource(c.resource).Name(name).Body(&o).Do(ctx).Error()
}

type secrets struct {
	objects[corev1.Secret, *corev1.Secret]
}

// List lists Secrets.
func (c secrets) List(ctx context.Context, o metav1.ListOptions) (*corev1.SecretList, error) {
	list := &corev1.SecretList{}
	err := c.selection(&o).Do(ctx).Into(list)
	return list, err
}

// Watch watches Secrets.
func (c secrets) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return c.selection(&o).Watch(ctx)
}

func (c secrets) selection(o *metav1.ListOptions) *rest.Request {
	request := c.api.Get().Namespace(c.namespace).Resource(c.resource).VersionedParams(o, c.parameters)
	if o.TimeoutSeconds != nil {
		request.Timeout(time.Duration(*o.TimeoutSeconds) * time.Second)
	}
	return request
}
