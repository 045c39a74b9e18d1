// Package access says who a person is and what they may do, as the API server decides it.
// It holds no rights: every request carries the person's own token.
package access

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/version"
)

// Role is the ClusterRole that lets people manage API credentials, and RoleTitle is what
// it is called among people.
const (
	Role      = "manage-api-credentials"
	RoleTitle = "Manage api credentials"
)

// Cluster is the API server of a cluster, for whoever has a token.
type Cluster struct {
	config *rest.Config // without credentials
	codecs serializer.CodecFactory
	scheme *runtime.Scheme
	mapper meta.RESTMapper
}

// NewCluster returns the cluster whose API server is at an https URL, and has a certificate of the
// authorities in ca (PEM); without any, one of the system's.
func NewCluster(url string, ca []byte) (*Cluster, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, corev1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c := &Cluster{
		config: &rest.Config{
			Host:            url,
			TLSClientConfig: rest.TLSClientConfig{CAData: ca},
			QPS:             -1, // The API server knows best whom to slow down.
			UserAgent:       "realmkeeper-portal/" + version.Version,
		},
		codecs: serializer.NewCodecFactory(scheme),
		scheme: scheme,
		mapper: newMapper(),
	}
	if _, err := c.as(""); err != nil {
		return nil, fmt.Errorf("preparing to reach the API server at %s: %w", url, err)
	}
	return c, nil
}

// newMapper knows the kinds that the portal asks for, so that it need not ask the API
// server for them once for each person.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind, scope := range map[schema.GroupVersionKind]meta.RESTScope{
		v1alpha1.GroupVersion.WithKind("Realm"):                                meta.RESTScopeRoot,
		v1alpha1.GroupVersion.WithKind("ApiClient"):                            meta.RESTScopeNamespace,
		corev1.SchemeGroupVersion.WithKind("Namespace"):                        meta.RESTScopeRoot,
		corev1.SchemeGroupVersion.WithKind("Event"):                            meta.RESTScopeNamespace,
		authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"):      meta.RESTScopeRoot,
		authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"): meta.RESTScopeRoot,
	} {
		mapper.Add(kind, scope)
	}
	return mapper
}

// Client acts with a token and nothing else.
type Client struct {
	client.Client

	rest *rest.RESTClient
}

// As returns a client for a token. An empty one is refused, as it would let an anonymous person act.
func (c *Cluster) As(token string) (*Client, error) {
	if token == "" {
		return nil, ErrNoToken
	}
	return c.as(token)
}

func (c *Cluster) as(token string) (*Client, error) {
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = token
	config.NegotiatedSerializer = c.codecs.WithoutConversion()
	// Connections are shared by all, for they are the same without the header.
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

// Page says which part of the ApiClients to read.
type Page struct {
	Namespace string // empty: all
	Realm     string // empty: all
	Limit     int
	Continue  string
}

// ListApiClients reads ApiClients as JSON into a list that need have no more members than somebody
// looks at: most of what a list costs is to read the others.
func (c *Client) ListApiClients(ctx context.Context, page Page, into any) error {
	request := c.rest.Get().AbsPath("apis", v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version).
		NamespaceIfScoped(page.Namespace, page.Namespace != "").Resource("apiclients").
		SetHeader("Accept", "application/json").Param("limit", strconv.Itoa(page.Limit))
	if page.Continue != "" {
		request.Param("continue", page.Continue)
	}
	if page.Realm != "" {
		request.Param("fieldSelector", fields.OneTermEqualSelector("spec.realmRef.name", page.Realm).String())
	}
	answer := request.Do(ctx)
	if err := answer.Error(); err != nil {
		return fmt.Errorf("listing ApiClients: %w", err)
	}
	body, err := answer.Raw()
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return fmt.Errorf("listing ApiClients: %w", err)
	}
	return nil
}

// Person is who a token is for, as the API server says.
type Person struct {
	Name string `json:"name"`
	UID  string `json:"uid,omitempty"`
}

// Who asks the API server for whom a token is. The error is apierrors.IsUnauthorized for a
// token that it doesn't accept.
func (c *Cluster) Who(ctx context.Context, token string) (Person, error) {
	as, err := c.As(token)
	if err != nil {
		return Person{}, err
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := as.Create(ctx, review); err != nil {
		return Person{}, fmt.Errorf("asking the API server whose token it is: %w", err)
	}
	user := review.Status.UserInfo
	return Person{Name: user.Username, UID: user.UID}, nil
}

// May asks the API server whether the person behind a client may do something to an ApiClient:
// to any where the name is empty, and in any namespace where that is empty too. It is for what to
// show; what is done, the API server decides again.
func May(ctx context.Context, as client.Client, verb, namespace, name string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Name: name, Verb: verb, Group: v1alpha1.GroupVersion.Group, Resource: "apiclients",
		},
	}}
	if err := as.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking the API server who may %s ApiClients: %w", verb, err)
	}
	return review.Status.Allowed, nil
}
