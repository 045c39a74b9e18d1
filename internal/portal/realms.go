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

// realmView is a realm as pages show it.
type realmView struct {
	*v1alpha1.Realm

	State    State
	Lifetime string
	Answers  []answer
	// Namespaces says in words who may have clients.
	Namespaces string
}

func viewRealm(realm *v1alpha1.Realm) realmView {
	return realmView{
		Realm: realm, State: stateOf(realm.Status.Conditions, realm.Generation),
		Lifetime: lifetime(realm.Status.TokenLifetime), Answers: answersOf(realm.Status.Conditions),
		Namespaces: namespacesOf(realm.Spec.AllowedNamespaces),
	}
}

func namespacesOf(allowed v1alpha1.AllowedNamespaces) string {
	switch allowed.From {
	case v1alpha1.NamespacesFromAll:
		return "all namespaces"
	case v1alpha1.NamespacesFromNames:
		return strings.Join(allowed.Names, ", ")
	}
	return "namespaces with certain labels"
}

// realmsPage lists the realms.
type realmsPage struct {
	Realms []realmView
	// Hidden: the person may not list them.
	Hidden bool
	Grant  string
}

func (p *portal) listRealms(w http.ResponseWriter, v *visit) error {
	realms, hidden, err := v.realms()
	if err != nil {
		return err
	}
	page := realmsPage{Hidden: hidden, Grant: v.session.Person.GrantCommand("")}
	for k := range realms {
		page.Realms = append(page.Realms, viewRealm(&realms[k]))
	}
	status := http.StatusOK
	if hidden {
		status = http.StatusForbidden
	}
	p.render(w, v, status, "realms.html", "Realms", page)
	return nil
}

// realms returns all of them by name, or that the person may not see them. There are few: each is
// an issuer of its own.
func (v *visit) realms() (realms []v1alpha1.Realm, hidden bool, err error) {
	list := &v1alpha1.RealmList{}
	if err := v.as.List(v.ctx(), list); err != nil {
		if apierrors.IsForbidden(err) {
			return nil, true, nil
		}
		return nil, false, err
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Realm) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, false, nil
}

func (p *portal) showRealm(w http.ResponseWriter, v *visit) error {
	realm := &v1alpha1.Realm{}
	if !canBeName(v.r.PathValue("realm")) {
		return errNoSuchPage
	}
	if err := v.as.Get(v.ctx(), client.ObjectKey{Name: v.r.PathValue("realm")}, realm); err != nil {
		return err
	}
	p.render(w, v, http.StatusOK, "realm.html", realm.Name, viewRealm(realm))
	return nil
}
