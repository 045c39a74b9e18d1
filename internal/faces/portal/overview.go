package portal

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// overviewPage shows how many clients need attention.
type overviewPage struct {
	Namespace string // empty for all namespaces
	// Total contains the counts of all clients. Realms contains the counts by realm.
	Total  *tally
	Realms []*tally
	// RealmProblems are the realms that aren't Ready.
	RealmProblems []realmView
	// Instance is nil if the user isn't allowed to get it.
	Instance   *instanceView
	StaleAfter string // such as 90 days
	// Partial is set if there are more clients than the portal counts.
	Partial bool
	// Unlisted is set if Realms lacks some realms.
	Unlisted bool
	// Hidden is set if the user isn't allowed to list clients in the namespace.
	Hidden bool
	Denied string // the namespace, or empty for all
	Grant  *grant
}

// maxRealms is the maximum number of realms in the overview. Clients can name any number of realms
// that don't exist, and the page of an administrator must not grow with their number.
const maxRealms = 200

// RealmLimit returns how many realms the overview lists.
func (overviewPage) RealmLimit() string { return formatCount(maxRealms) }

// Limit returns how many clients the portal counts.
func (overviewPage) Limit() string { return formatCount(maxScanned) }

// tally counts clients of a realm, or of all realms.
type tally struct {
	namespace  string
	Realm      string // empty for all realms
	Count      int
	States     map[string]int
	Attentions map[string]int // by key
}

func newTally(namespace, realm string) *tally {
	return &tally{Realm: realm, States: map[string]int{}, Attentions: map[string]int{}, namespace: namespace}
}

func (t *tally) add(r *row) {
	t.Count++
	t.States[r.State.Name]++
	for _, a := range attentions {
		if a.needed(r) {
			t.Attentions[a.Key]++
		}
	}
}

// countLink is a count that links to the list of the counted clients.
type countLink struct {
	Key, Label, Kind, Help string
	Count                  int
	Path                   string
}

func (t *tally) link(link countLink, q listQuery) countLink {
	q.Namespace, q.Realm = t.namespace, t.Realm
	link.Path = q.path(cursor{})
	return link
}

// All returns the count of all clients.
func (t *tally) All() countLink {
	return t.link(countLink{Label: "Clients", Count: t.Count}, listQuery{})
}

// ByState returns the counts by state.
func (t *tally) ByState() []countLink {
	links := make([]countLink, 0, len(allStates))
	for _, s := range allStates {
		links = append(links, t.link(countLink{Label: s, Kind: stateKinds[s], Count: t.States[s]}, listQuery{State: s}))
	}
	return links
}

// ByAttention returns the counts by the reason for which clients need attention.
func (t *tally) ByAttention() []countLink {
	links := make([]countLink, 0, len(attentions))
	for _, a := range attentions {
		links = append(links, t.link(countLink{Key: a.Key, Label: a.Label, Kind: "busy", Help: a.help, Count: t.Attentions[a.Key]}, listQuery{Attention: a.Key, Sort: a.order}))
	}
	return links
}

// Problems returns the counts of clients that need attention, without zero counts.
func (t *tally) Problems() []countLink {
	failing := t.link(countLink{Label: StateNotReady, Kind: stateKinds[StateNotReady], Help: "Can't get tokens", Count: t.States[StateNotReady]}, listQuery{State: StateNotReady})
	return slices.DeleteFunc(append([]countLink{failing}, t.ByAttention()...), func(l countLink) bool { return l.Count == 0 })
}

// showOverview shows the overview, for all namespaces or the one in the query.
func (p *portal) showOverview(w http.ResponseWriter, req *request) error {
	page := overviewPage{Namespace: parseListQuery(req.r.URL.Query()).Namespace, StaleAfter: formatPeriod(p.StaleAfter)}
	if !validName(page.Namespace) {
		return fmt.Errorf("%w: the namespace name is not valid", errInput)
	}
	var realmsErr, instanceErr error
	var reading sync.WaitGroup
	reading.Go(func() { page.Instance, instanceErr = req.instance() })
	reading.Go(func() { page.RealmProblems, realmsErr = req.realmProblems() })
	err := p.countClients(req, &page)
	reading.Wait()
	status := http.StatusOK
	switch {
	case apierrors.IsForbidden(err):
		page.Hidden, page.Denied, status = true, page.Namespace, http.StatusForbidden
		page.Grant = req.grant(cmp.Or(page.Namespace, req.ownNamespace()))
		page.Namespace = cmp.Or(page.Namespace, req.ownNamespace()) // the likely namespace of its role binding
	case cmp.Or(err, realmsErr, instanceErr) != nil:
		return cmp.Or(err, realmsErr, instanceErr)
	}
	p.render(w, req, status, "overview.html", "Overview", page)
	return nil
}

// countClients counts the clients in the namespace of the page.
func (p *portal) countClients(req *request, page *overviewPage) (err error) {
	total, realms := newTally(page.Namespace, ""), map[string]*tally{}
	_, page.Partial, err = p.readAll(req, listQuery{Namespace: page.Namespace}, func(r row) {
		total.add(&r)
		realm, ok := realms[r.Realm]
		if !ok && len(realms) == maxRealms {
			page.Unlisted = true
			return
		}
		if !ok {
			realm = newTally(page.Namespace, r.Realm)
			realms[r.Realm] = realm
		}
		realm.add(&r)
	})
	page.Total = total
	for _, name := range slices.Sorted(maps.Keys(realms)) {
		page.Realms = append(page.Realms, realms[name])
	}
	return err
}

// realmProblems returns the realms that aren't Ready. It returns none if the user isn't allowed to
// list realms.
func (req *request) realmProblems() (problems []realmView, err error) {
	realms, _, err := req.realms()
	for k := range realms {
		if view := viewRealm(&realms[k]); view.State.Name != StateReady {
			problems = append(problems, view)
		}
	}
	return problems, err
}
