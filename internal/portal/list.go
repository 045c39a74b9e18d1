package portal

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/gitops"
	"github.com/realmkeeper/realmkeeper/internal/portal/access"
)

const (
	// pageSize is the maximum number of clients on a page.
	pageSize = 50
	// chunkSize is the number of clients per API request if the portal filters the results.
	chunkSize = 500
	// maxScanned is the number of clients after which a search stops. The next page continues
	// there.
	maxScanned = 20_000
)

// listQuery contains the filters of a list and the start of the requested page.
type listQuery struct {
	Namespace, Realm, State, Search string
	// From is the start of the page. The zero value is the start of the list.
	From cursor
}

// cursor is a position in a list: the number of items to skip after the API server's continue
// token.
type cursor struct {
	skip  int
	token string
}

func (c cursor) String() string {
	if c == (cursor{}) {
		return ""
	}
	return strconv.Itoa(c.skip) + "." + c.token
}

// parseCursor parses the result of String. If s is invalid, it returns the start of the list.
func parseCursor(s string) cursor {
	skip, token, ok := strings.Cut(s, ".")
	n, err := strconv.Atoi(skip)
	if !ok || err != nil || n < 0 || n > chunkSize {
		return cursor{}
	}
	return cursor{skip: n, token: token}
}

func parseListQuery(values url.Values) listQuery {
	get := func(key string) string { return strings.TrimSpace(values.Get(key)) }
	q := listQuery{
		Namespace: get("namespace"), Realm: get("realm"), State: get("state"), Search: get("search"),
		From: parseCursor(values.Get("from")),
	}
	if !slices.Contains(allStates, q.State) {
		q.State = ""
	}
	return q
}

// path returns the path of the page that starts at from.
func (q listQuery) path(from cursor) string {
	values := url.Values{}
	for _, parameter := range []struct{ key, value string }{
		{"namespace", q.Namespace}, {"realm", q.Realm}, {"state", q.State}, {"search", q.Search}, {"from", from.String()},
	} {
		if parameter.value != "" {
			values.Set(parameter.key, parameter.value)
		}
	}
	if len(values) == 0 {
		return "/clients"
	}
	return "/clients?" + values.Encode()
}

// filtersHere reports whether the query has filters that the API server doesn't support.
func (q listQuery) filtersHere() bool { return q.State != "" || q.Search != "" }

// matches reports whether a client matches the filter.
func (q listQuery) matches(c *v1alpha1.ApiClient) bool {
	if q.Realm != "" && c.Spec.RealmRef.Name != q.Realm {
		return false
	}
	if q.State != "" && stateOf(c.Status.Conditions, c.Generation).Name != q.State {
		return false
	}
	if q.Search == "" {
		return true
	}
	term := strings.ToLower(q.Search)
	return slices.ContainsFunc([]string{c.Name, c.Namespace, c.EffectiveClientID(), c.Spec.Description}, func(s string) bool {
		return strings.Contains(strings.ToLower(s), term)
	})
}

// row is a client in a list.
type row struct {
	Namespace, Name, Realm, ClientID, Description string
	State                                         State
	ManagedBy                                     string
}

// listResult is a page of a list.
type listResult struct {
	rows    []row
	next    cursor // the zero value on the last page
	scanned int    // number of clients read
}

// findClients returns a page of matching clients. It stops reading as soon as the page is full.
func (req *request) findClients(q listQuery) (listResult, error) {
	var result listResult
	at := q.From
	for {
		list, err := req.read(q, at.token)
		if err != nil {
			return listResult{}, err
		}
		for k := at.skip; k < len(list.Items); k++ {
			c := list.Items[k].apiClient()
			if !q.matches(c) {
				continue
			}
			if len(result.rows) == pageSize {
				result.next = cursor{skip: k, token: at.token}
				return result, nil
			}
			result.rows = append(result.rows, rowOf(c))
		}
		result.scanned += len(list.Items)
		at = cursor{token: list.Metadata.Continue}
		if list.Metadata.Continue == "" {
			return result, nil
		}
		if len(result.rows) == pageSize || result.scanned >= maxScanned {
			result.next = at
			return result, nil
		}
	}
}

func rowOf(c *v1alpha1.ApiClient) row {
	managed, _ := gitops.ManagerOf(c)
	return row{
		Namespace: c.Namespace, Name: c.Name, Realm: c.Spec.RealmRef.Name, ClientID: c.EffectiveClientID(),
		Description: c.Spec.Description, State: stateOf(c.Status.Conditions, c.Generation), ManagedBy: managed.Tool,
	}
}

// read returns a chunk of the list, filtered by realm. API servers before Kubernetes 1.31 don't
// support this filter, so matches also filters by realm.
func (req *request) read(q listQuery, token string) (*clientList, error) {
	page := access.Page{Namespace: q.Namespace, Realm: q.Realm, Limit: pageSize, Continue: token}
	if q.filtersHere() {
		page.Limit = chunkSize
	}
	list := &clientList{}
	err := req.api.ListApiClients(req.ctx(), page, list)
	if page.Realm != "" && apierrors.IsBadRequest(err) {
		page.Realm = ""
		err = req.api.ListApiClients(req.ctx(), page, list)
	}
	return list, err
}
