package portal

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// realmView contains the realm details that pages show.
type realmView struct {
	*v1alpha1.Realm

	State      State
	Lifetime   string
	Conditions []conditionView
	// Namespaces describes the allowed namespaces.
	Namespaces string
}

func viewRealm(realm *v1alpha1.Realm) realmView {
	return realmView{
		Realm: realm, State: stateOf(realm.Status.Conditions, realm.Generation),
		Lifetime: formatLifetime(realm.Status.TokenLifetime), Conditions: conditionsOf(realm.Status.Conditions),
		Namespaces: namespacesOf(realm.Spec.AllowedNamespaces),
	}
}

func namespacesOf(allowed v1alpha1.AllowedNamespaces) string {
	switch allowed.From {
	case v1alpha1.NamespacesFromAll:
		return "All namespaces"
	case v1alpha1.NamespacesFromNames:
		return strings.Join(allowed.Names, ", ")
	}
	return "Namespaces with matching labels"
}

// realmsPage is the list of realms.
type realmsPage struct {
	Realms []realmView
	// Hidden is set if the user isn't allowed to list realms.
	Hidden bool
	Grant  *grant
}

func (p *portal) listRealms(w http.ResponseWriter, req *request) error {
	realms, hidden, err := req.realms()
	if err != nil {
		return err
	}
	page := realmsPage{Hidden: hidden, Grant: req.grant("")}
	for k := range realms {
		page.Realms = append(page.Realms, viewRealm(&realms[k]))
	}
	status := http.StatusOK
	if hidden {
		status = http.StatusForbidden
	}
	p.render(w, req, status, "realms.html", "Realms", page)
	return nil
}

// realms returns all realms sorted by name. hidden is true if the user isn't allowed to list them.
// The list isn't paginated, because a cluster has few realms.
func (req *request) realms() (realms []v1alpha1.Realm, hidden bool, err error) {
	list := &v1alpha1.RealmList{}
	if err := req.api.List(req.ctx(), list); err != nil {
		if apierrors.IsForbidden(err) {
			return nil, true, nil
		}
		return nil, false, err
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Realm) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, false, nil
}

func (p *portal) showRealm(w http.ResponseWriter, req *request) error {
	realm := &v1alpha1.Realm{}
	if !validName(req.r.PathValue("realm")) {
		return errPageNotFound
	}
	if err := req.api.Get(req.ctx(), client.ObjectKey{Name: req.r.PathValue("realm")}, realm); err != nil {
		return err
	}
	p.render(w, req, http.StatusOK, "realm.html", realm.Name, viewRealm(realm))
	return nil
}
