package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/faces/remedy"
	"github.com/realmkeeper/realmkeeper/internal/rules/grants"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

func nothingCreated(err error) error { return fmt.Errorf("nothing was created: %w", err) }

var (
	errNotDefined    = errors.New("not defined by Realm")
	errNotGranted    = errors.New("not granted by the realm")
	errAlreadyExists = errors.New("already exists")
	errNotPermitted  = errors.New("you have no permission to create ApiClients")
)

// checkRealm returns an error if the realm does not exist, or would not accept a new client. Users of a single
// namespace may not read Realms; notes then say what was not checked, and the status of the client says
// whether it is accepted.
func checkRealm(ctx context.Context, c *cluster.Cluster, t *cluster.Target) (notes []string, err error) {
	if t.Parent, notes, err = readRealm(ctx, c, &t.Client.Spec); t.Parent == nil {
		return notes, err
	}
	return checkGrants(ctx, c, t)
}

// readRealm returns the realm of a client, which must define its scopes and audiences. It is nil if there is an error, or
// if the user may not read it, as notes then say.
func readRealm(ctx context.Context, c *cluster.Cluster, spec *v1beta1.ApiClientSpec) (realm *v1beta1.Realm, notes []string, err error) {
	name := spec.RealmRef.Name
	found, err := c.Find(ctx, "realm/"+name)
	if apierrors.IsForbidden(err) {
		return nil, []string{fmt.Sprintf("You have no permission to get Realm %s, so its scopes and grants were not checked.", name)}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if err := checkDefined(name, "scopes", spec.Scopes, found.Realm.Spec.Scopes); err != nil {
		return nil, nil, err
	}
	if audiences := grants.KnownAudiences(found.Realm); len(audiences) > 0 {
		if err := checkDefined(name, "audiences", spec.Audiences, audiences); err != nil {
			return nil, nil, err
		}
	}
	return found.Realm, nil, nil
}

func checkDefined(realm, what string, requested, defined []string) error {
	missing := slices.DeleteFunc(slices.Clone(requested), func(s string) bool { return slices.Contains(defined, s) })
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s: %w %s, which defines %s; choose from these, or have them added to spec.%s of the Realm",
		what, strings.Join(missing, ", "), errNotDefined, realm, output.OrNone(defined, "none"), what)
}

// checkGrants checks that a single grant covers the client.
func checkGrants(ctx context.Context, c *cluster.Cluster, t *cluster.Target) (notes []string, err error) {
	labels, err := namespaceLabels(ctx, c, t.Parent, t.Client.Namespace)
	if err != nil {
		return nil, err
	}
	request := grants.Request{Realm: t.Parent, Issuer: t.Parent.Status.Issuer, Client: t.Client, NamespaceLabels: labels}
	switch coverage := request.Coverage(); {
	case coverage.Covers():
		return nil, nil
	case coverage.Undecided:
		return []string{labelsUnknown(t.Client.Namespace)}, nil
	case coverage.Grant == nil:
		return nil, fmt.Errorf("%w: %s Choose another namespace with -n, or %s", errNotGranted, coverage.Problem(), addGrant(t, v1beta1.ReasonNamespaceNotAllowed))
	default:
		return nil, fmt.Errorf("%w: %s Request less, or %s", errNotGranted, coverage.Problem(), addGrant(t, v1beta1.ReasonNotGranted))
	}
}

func labelsUnknown(namespace string) string {
	return fmt.Sprintf("You have no permission to get namespace %s, so grants that select namespaces by label were not checked.", namespace)
}

// addGrant says how an administrator lets the realm accept the client.
func addGrant(t *cluster.Target, reason v1beta1.ConditionReason) string {
	known, ok := remedy.ForClient(t.Client, func() *v1beta1.Realm { return t.Parent }, reason)
	if !ok || len(known.Commands) == 0 {
		return "have a grant added to the Realm"
	}
	return "ask an administrator of the realm to run: " + known.Commands[len(known.Commands)-1]
}

// namespaceLabels returns the labels of a namespace if a grant depends on them; nil if the user may not read them.
func namespaceLabels(ctx context.Context, c *cluster.Cluster, realm *v1beta1.Realm, name string) (map[string]string, error) {
	if realm == nil || !slices.ContainsFunc(realm.Spec.Grants, func(g v1beta1.Grant) bool { return g.Namespaces.Selector != nil }) {
		return nil, nil
	}
	namespace := &corev1.Namespace{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, namespace)
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case apierrors.IsNotFound(err):
		return nil, noNamespace(name)
	case err != nil:
		return nil, cluster.DescribeError(err, "reading namespace "+name)
	}
	return namespace.Labels, nil
}

func noNamespace(name string) error {
	return fmt.Errorf("namespace %s %w; create it with \"kubectl create namespace %s\", or choose another one with -n", name, cluster.ErrNotFound, untrusted.Quote(name))
}

// createError says why the API server did not create the object, and what to do.
func createError(ctx context.Context, c *cluster.Cluster, t *cluster.Target, err error) error {
	switch status, ok := errors.AsType[*apierrors.StatusError](err); {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s %w, and nothing was changed; choose another name, or look at it with %q", t, errAlreadyExists, t.Command("explain"))
	case ok && apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "namespaces":
		return nothingCreated(noNamespace(t.Client.Namespace))
	case apierrors.IsForbidden(err) && !mayCreate(ctx, c, t.Client.Namespace):
		return nothingCreated(fmt.Errorf("%w in namespace %s; ask an administrator for the verb create on %s, which the ClusterRoles manage-api-credentials and edit contain (%w)",
			errNotPermitted, t.Client.Namespace, "apiclients."+v1beta1.GroupVersion.Group, err))
	case ok && status.ErrStatus.Code < 500:
		return nothingCreated(cluster.DescribeError(err, "creating "+t.String()))
	}
	return fmt.Errorf("creating %s: %w; it is unknown whether it was created: if %q finds it, delete it before you try again",
		t, err, "kubectl get apiclient "+untrusted.Quote(t.Client.Name)+" -n "+untrusted.Quote(t.Client.Namespace))
}

// mayCreate reports whether the user may create ApiClients. It returns true if this is unknown.
func mayCreate(ctx context.Context, c *cluster.Cluster, namespace string) bool {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Group: v1beta1.GroupVersion.Group, Resource: "apiclients"},
	}}
	err := c.Create(ctx, review)
	return err != nil || review.Status.Allowed
}
