package portal

import (
	"cmp"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/describe"
)

// realmView contains the realm details that pages show.
type realmView struct {
	*v1beta1.Realm

	State      State
	Lifetime   string
	Conditions []conditionView
	Grants     []grantView
	Exchanges  []describe.ExchangeRule
	// Timeline is nil without signing keys, and in lists.
	Timeline *timeline
}

func viewRealm(realm *v1beta1.Realm) realmView {
	return realmView{
		Realm: realm, State: stateOf(realm.Status.Conditions, realm.Generation),
		Lifetime: describe.Duration(realm.Status.TokenLifetime), Conditions: conditionsOf(realm.Status.Conditions, realmRemedies(realm)),
		Grants: grantsOf(realm), Exchanges: describe.ExchangeRules(realm),
	}
}

// grantView contains a grant and a description of its namespaces.
type grantView struct {
	v1beta1.Grant

	Included string
}

func grantsOf(realm *v1beta1.Realm) []grantView {
	var grants []grantView
	for _, g := range realm.Spec.Grants {
		grants = append(grants, grantView{Grant: g, Included: describe.Namespaces(&g.Namespaces)})
	}
	return grants
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
func (req *request) realms() (realms []v1beta1.Realm, hidden bool, err error) {
	list := &v1beta1.RealmList{}
	if err := req.api.List(req.ctx(), list); err != nil {
		if apierrors.IsForbidden(err) {
			return nil, true, nil
		}
		return nil, false, err
	}
	slices.SortFunc(list.Items, func(a, b v1beta1.Realm) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, false, nil
}

func (p *portal) showRealm(w http.ResponseWriter, req *request) error {
	realm := &v1beta1.Realm{}
	if !validName(req.r.PathValue("realm")) {
		return errPageNotFound
	}
	if err := req.api.Get(req.ctx(), client.ObjectKey{Name: req.r.PathValue("realm")}, realm); err != nil {
		return err
	}
	page := viewRealm(realm)
	page.Timeline = keyTimeline(&realm.Status, p.Now())
	p.render(w, req, http.StatusOK, "realm.html", realm.Name, page)
	return nil
}
