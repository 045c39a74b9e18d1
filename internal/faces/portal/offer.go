package portal

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/rules/grants"
)

// offer is what the grants of a realm allow the clients in a namespace to have.
type offer struct {
	// Grants are the grants that include the namespace. One of them must cover the whole client.
	Grants []grantView
	// Scopes and ClientIDs are those of all these grants, without duplicates.
	Scopes, ClientIDs []string
}

func (req *request) offer(realm *v1beta1.Realm, namespace string) (offer, error) {
	labels, err := req.namespaceLabels(realm, namespace)
	if err != nil {
		return offer{}, err
	}
	o := offer{Grants: slices.DeleteFunc(grantsOf(realm), func(g grantView) bool {
		return !grants.MayInclude(&g.Namespaces, namespace, labels)
	})}
	for _, g := range o.Grants {
		o.ClientIDs = append(o.ClientIDs, g.ClientIDs...)
	}
	slices.Sort(o.ClientIDs)
	o.ClientIDs = slices.Compact(o.ClientIDs)
	for _, scope := range realm.Spec.Scopes {
		if slices.ContainsFunc(o.Grants, func(g grantView) bool { return g.AllowsScope(scope) }) {
			o.Scopes = append(o.Scopes, scope)
		}
	}
	return o, nil
}

// namespaceLabels returns the labels of a namespace if a grant depends on them; nil if the user isn't allowed
// to read them.
func (req *request) namespaceLabels(realm *v1beta1.Realm, name string) (map[string]string, error) {
	if !slices.ContainsFunc(realm.Spec.Grants, func(g v1beta1.Grant) bool { return g.Namespaces.Selector != nil }) {
		return nil, nil
	}
	return req.labelsOf(name)
}

// labelsOf returns the labels of a namespace: none if it doesn't exist, and nil if the user isn't allowed to
// read them.
func (req *request) labelsOf(name string) (map[string]string, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := req.api.Get(req.ctx(), client.ObjectKey{Name: name}, namespace)
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case apierrors.IsNotFound(err):
		return map[string]string{}, nil
	}
	return namespace.Labels, err
}
