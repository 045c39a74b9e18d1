// Package access signs users in, manages their sessions and sends requests to the API server with
// the user's token. The portal has no permissions of its own.
package access

import (
	"context"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/version"
)

// Role is the ClusterRole for managing API credentials. RoleTitle is its display name.
const (
	Role      = "manage-api-credentials"
	RoleTitle = "Manage api credentials"
)

// Cluster creates API server clients that authenticate with user tokens.
type Cluster struct {
	config *rest.Config // without credentials
	codecs serializer.CodecFactory
	scheme *runtime.Scheme
	mapper meta.RESTMapper
	places *places // limits concurrent token checks
}

// NewCluster returns a Cluster for the API server at the given https URL. ca contains the PEM
// certificates of the trusted authorities. If it is empty, the system's root certificates are used.
func NewCluster(url string, ca []byte) (*Cluster, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1beta1.AddToScheme, corev1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c := &Cluster{
		config: &rest.Config{
			Host:            url,
			TLSClientConfig: rest.TLSClientConfig{CAData: ca},
			QPS:             -1, // No client-side rate limit. The API server limits requests per user.
			// The portal runs near the API server, where compressing takes longer than sending.
			DisableCompression: true,
			UserAgent:          "realmkeeper-portal/" + version.Version,
		},
		codecs: serializer.NewCodecFactory(scheme),
		scheme: scheme,
		mapper: newMapper(),
		places: newPlaces(),
	}
	if _, err := c.clientFor(""); err != nil {
		return nil, fmt.Errorf("creating a client for the API server at %s: %w", url, err)
	}
	return c, nil
}

// newMapper returns a static mapper for the kinds that the portal uses. It avoids API discovery for
// each user.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind, scope := range map[schema.GroupVersionKind]meta.RESTScope{
		v1beta1.GroupVersion.WithKind("Realm"):                                 meta.RESTScopeRoot,
		v1beta1.GroupVersion.WithKind("Instance"):                              meta.RESTScopeRoot,
		v1beta1.GroupVersion.WithKind("ApiClient"):                             meta.RESTScopeNamespace,
		corev1.SchemeGroupVersion.WithKind("Namespace"):                        meta.RESTScopeRoot,
		corev1.SchemeGroupVersion.WithKind("Event"):                            meta.RESTScopeNamespace,
		authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"):      meta.RESTScopeRoot,
		authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"): meta.RESTScopeRoot,
	} {
		mapper.Add(kind, scope)
	}
	return mapper
}

// Client accesses the API server with a user's token.
type Client struct {
	client.Client

	rest *rest.RESTClient
}

// ClientFor returns a client that authenticates with the given token. It returns ErrNoToken if the
// token is empty, because requests without a token are anonymous.
func (c *Cluster) ClientFor(token string) (*Client, error) {
	if token == "" {
		return nil, ErrNoToken
	}
	return c.clientFor(token)
}

func (c *Cluster) clientFor(token string) (*Client, error) {
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = token
	config.NegotiatedSerializer = c.codecs.WithoutConversion()
	// Clients share connections because only the Authorization header differs.
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	typed, err := client.New(config, client.Options{HTTPClient: httpClient, Scheme: c.scheme, Mapper: c.mapper})
	if err != nil {
		return nil, err
	}
	raw, err := rest.UnversionedRESTClientForConfigAndClient(config, httpClient)
	return &Client{Client: typed, rest: raw}, err
}

// User is the user identified by a Kubernetes token.
type User struct {
	Name string `json:"name"`
	UID  string `json:"uid,omitempty"`
}

// Identify returns the user that the given token belongs to. The error satisfies
// apierrors.IsUnauthorized if the API server rejects the token. It returns ErrBusy if too many tokens
// are being checked, because anyone can send tokens.
func (c *Cluster) Identify(ctx context.Context, token string) (User, error) {
	api, err := c.ClientFor(token)
	if err != nil {
		return User{}, err
	}
	if err := c.places.take(ctx); err != nil {
		return User{}, err
	}
	defer c.places.leave()
	review := &authenticationv1.SelfSubjectReview{}
	if err := api.Create(ctx, review); err != nil {
		return User{}, fmt.Errorf("identifying the user of the token: %w", err)
	}
	user := review.Status.UserInfo
	return User{Name: user.Username, UID: user.UID}, nil
}

// Allowed reports whether the user may perform the given verb on an ApiClient. An empty name means
// all ApiClients and an empty namespace means all namespaces. The result only determines what pages
// show. The API server authorizes every change.
func Allowed(ctx context.Context, api client.Client, verb, namespace, name string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Name: name, Verb: verb, Group: v1beta1.GroupVersion.Group, Resource: "apiclients",
		},
	}}
	if err := api.Create(ctx, review); err != nil {
		return false, fmt.Errorf("checking permission to %s ApiClients: %w", verb, err)
	}
	return review.Status.Allowed, nil
}
