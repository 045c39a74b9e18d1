package portal

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/realmkeeper/realmkeeper/internal/portal/access"
)

// listPage lists clients.
type listPage struct {
	Query  listQuery
	States []string
	Rows   []row
	Next   string // the address of the next page; empty: this is the last
	First  string // that of the first; empty: this is it
	Read   int    // clients were looked at in a search
	MayAdd bool
	// Hidden: the person may not list the clients of this namespace, or of all.
	Hidden bool
	Grant  string
	// Restarted: the API server has forgotten where the page began.
	Restarted bool
}

func (p *portal) listClients(w http.ResponseWriter, v *visit) error {
	q := parseListQuery(v.r.URL.Query())
	if !canBeName(q.Namespace) {
		return fmt.Errorf("%w: no namespace has such a name", errInput)
	}
	page := listPage{Query: q, States: allStates, Grant: v.session.Person.GrantCommand(cmp.Or(q.Namespace, v.ownNamespace()))}
	var mayErr error
	var asking sync.WaitGroup
	asking.Go(func() { page.MayAdd, mayErr = access.May(v.ctx(), v.as, "create", q.Namespace, "") })
	f, err := v.find(q)
	asking.Wait()
	if apierrors.IsResourceExpired(err) {
		q.From, page.Restarted = cursor{}, true
		f, err = v.find(q)
	}
	status := http.StatusOK
	switch {
	case apierrors.IsForbidden(err):
		page.Hidden, status = true, http.StatusForbidden
		if q.Namespace == "" {
			page.Query.Namespace = v.ownNamespace() // where a service account has its role, most likely
		}
	case cmp.Or(err, mayErr) != nil:
		return cmp.Or(err, mayErr)
	}
	page.Rows = f.rows
	if q.selective() {
		page.Read = f.read
	}
	if f.next != (cursor{}) {
		page.Next = q.path(f.next)
	}
	if q.From != (cursor{}) {
		page.First = q.path(cursor{})
	}
	if isPart(v.r) && !page.Hidden {
		p.renderPart(w, "clients.html", "results", page)
		return nil
	}
	p.render(w, v, status, "clients.html", "API clients", page)
	return nil
}

// ownNamespace is that of the person, if it is a service account.
func (v *visit) ownNamespace() string {
	namespace, _, _ := v.session.Person.ServiceAccount()
	return namespace
}

// clientPath is the address of a client.
func clientPath(namespace, name string) string {
	return "/clients/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

// canBeName reports whether an object can have such a name, or none is said. Others are never asked
// for, since the path of the request would be another one.
func canBeName(name string) bool { return len(content.IsPathSegmentName(name)) == 0 }
