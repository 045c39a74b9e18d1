package portal

import (
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// maxChoices is the maximum number of names to select from. If there are more, users enter the name
// instead.
const maxChoices = 2000

// choiceKinds are the kinds of cluster-scoped objects whose names users select.
var choiceKinds = map[string]schema.GroupVersionKind{
	"namespace": corev1.SchemeGroupVersion.WithKind("NamespaceList"),
	"realm":     v1beta1.GroupVersion.WithKind("RealmList"),
}

// listChoices renders the names that users can select in a form field. A field requests them when it
// gets the focus, so that they don't delay the page.
func (p *portal) listChoices(w http.ResponseWriter, req *request) error {
	kind, ok := choiceKinds[req.r.PathValue("kind")]
	if !ok {
		return errPageNotFound
	}
	names, err := req.names(kind)
	if err != nil {
		return err
	}
	p.renderPart(w, "clients.html", "options", names)
	return nil
}

// names returns the sorted names of all objects of a kind. It returns none if there are too many or
// the user isn't allowed to list them.
func (req *request) names(kind schema.GroupVersionKind) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	err := req.api.List(req.ctx(), list, client.Limit(maxChoices))
	if apierrors.IsForbidden(err) || list.Continue != "" {
		return nil, nil
	}
	names := make([]string, 0, len(list.Items))
	for k := range list.Items {
		names = append(names, list.Items[k].Name)
	}
	slices.Sort(names)
	return names, err
}
