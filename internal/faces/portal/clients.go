package portal

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
)

// listPage is the list of clients.
type listPage struct {
	Query      listQuery
	States     []string
	Attentions []attention
	Rows       []row
	Next       string // path of the next page; empty on the last page
	First      string // path of the first page; empty on the first page
	// Scanned is the number of clients that the search read for this page.
	Scanned int
	// Start and Found are set if the portal sorts the list. Start is the number of rows before this
	// page, and Found is the number of all rows. Partial is set if there are more clients than the
	// portal sorts.
	Start, Found int
	Partial      bool
	CanCreate    bool
	// Hidden is set if the user isn't allowed to list clients in the selected namespaces.
	Hidden bool
	Grant  *grant
	// Restarted is set if the continue token has expired and the list starts from the beginning.
	Restarted  bool
	StaleAfter string // such as 90 days
}

// Range describes the rows on this page, such as "51 to 100 of 1,234".
func (l listPage) Range() string {
	return formatCount(l.Start+1) + " to " + formatCount(l.Start+len(l.Rows)) + " of " + formatCount(l.Found)
}

// Limit returns how many clients the portal sorts.
func (listPage) Limit() string { return formatCount(maxScanned) }

func (p *portal) listClients(w http.ResponseWriter, req *request) error {
	q := parseListQuery(req.r.URL.Query())
	if !validName(q.Namespace) {
		return fmt.Errorf("%w: the namespace name is not valid", errInput)
	}
	page := listPage{
		Query: q, States: allStates, Attentions: attentions, StaleAfter: formatPeriod(p.StaleAfter),
		Grant: req.grant(cmp.Or(q.Namespace, req.ownNamespace())),
	}
	var allowedErr error
	var checking sync.WaitGroup
	if !isPart(req.r) {
		checking.Go(func() { page.CanCreate, allowedErr = access.Allowed(req.ctx(), req.api, "create", q.Namespace, "") })
	}
	found, err := p.findClients(req, q)
	checking.Wait()
	if apierrors.IsResourceExpired(err) {
		q.From, page.Restarted = cursor{}, true
		found, err = p.findClients(req, q)
	}
	status := http.StatusOK
	switch {
	case apierrors.IsForbidden(err):
		page.Hidden, status = true, http.StatusForbidden
		if q.Namespace == "" {
			page.Query.Namespace = req.ownNamespace() // the likely namespace of its role binding
		}
	case cmp.Or(err, allowedErr) != nil:
		return cmp.Or(err, allowedErr)
	}
	page.setResult(q, found)
	if isPart(req.r) && !page.Hidden {
		p.renderPart(w, "clients.html", "results", page)
		return nil
	}
	p.render(w, req, status, "clients.html", "API clients", page)
	return nil
}

// setResult sets the rows and the paths of other pages.
func (l *listPage) setResult(q listQuery, found listResult) {
	l.Rows, l.Found, l.Partial = found.rows, found.found, found.partial
	if q.sortsHere() {
		l.Start = q.From.skip
	} else if q.filtersHere() {
		l.Scanned = found.scanned
	}
	if found.next != (cursor{}) {
		l.Next = q.path(found.next)
	}
	if q.From != (cursor{}) {
		l.First = q.path(cursor{})
	}
}

// ownNamespace returns the user's namespace if the user is a service account.
func (req *request) ownNamespace() string {
	namespace, _, _ := req.session.User.ServiceAccount()
	return namespace
}

// clientPath returns the path of the client page.
func clientPath(namespace, name string) string {
	return "/clients/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

// validName reports whether name is empty or a valid path segment. The portal never sends other
// names to the API server, because they could change the request path.
func validName(name string) bool { return len(content.IsPathSegmentName(name)) == 0 }
