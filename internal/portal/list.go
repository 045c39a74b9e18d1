package portal

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/portal/access"
)

const (
	// pageSize is how many clients a page has.
	pageSize = 50
	// chunk is how many are read at once where some of them are passed over.
	chunk = 500
	// longestSearch is how many are read for one page at most; the next page goes on from there.
	longestSearch = 20_000
)

// listQuery is what a person looks for.
type listQuery struct {
	Namespace, Realm, State, Search string
	// From is where the page begins; the zero value is the beginning.
	From cursor
}

// cursor is a place in a list: so many clients after the point that the API server's token
// names.
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

// parseCursor reads what String writes. Another has the list begin at its beginning.
func parseCursor(s string) cursor {
	skip, token, ok := strings.Cut(s, ".")
	n, err := strconv.Atoi(skip)
	if !ok || err != nil || n < 0 || n > chunk {
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

// path is the address of the list, from another place on.
func (q listQuery) path(from cursor) string {
	values := url.Values{}
	for _, v := range []struct{ key, value string }{
		{"namespace", q.Namespace}, {"realm", q.Realm}, {"state", q.State}, {"search", q.Search}, {"from", from.String()},
	} {
		if v.value != "" {
			values.Set(v.key, v.value)
		}
	}
	if len(values) == 0 {
		return "/clients"
	}
	return "/clients?" + values.Encode()
}

// selective reports whether clients are passed over here, which the API server can't do.
func (q listQuery) selective() bool { return q.State != "" || q.Search != "" }

// matches reports whether a client is what the person looks for.
func (q listQuery) matches(c *v1alpha1.ApiClient) bool {
	if q.Realm != "" && c.Spec.RealmRef.Name != q.Realm {
		return false
	}
	if q.State != "" && stateOf(c.Status.Conditions, c.Generation).Word != q.State {
		return false
	}
	if q.Search == "" {
		return true
	}
	sought := strings.ToLower(q.Search)
	return slices.ContainsFunc([]string{c.Name, c.Namespace, c.EffectiveClientID(), c.Spec.Description}, func(s string) bool {
		return strings.Contains(strings.ToLower(s), sought)
	})
}

// row is a client in a list.
type row struct {
	Namespace, Name, Realm, ClientID, Description string
	State                                         State
	Managed                                       string
}

// found is a page of a list.
type found struct {
	rows []row
	next cursor // the zero value: there are no more
	read int    // clients were looked at
}

// find reads a page of the clients that match, and no more of the list than it takes.
func (v *visit) find(q listQuery) (found, error) {
	var f found
	at := q.From
	for {
		list, err := v.read(q, at.token)
		if err != nil {
			return found{}, err
		}
		for k := at.skip; k < len(list.Items); k++ {
			c := list.Items[k].apiClient()
			if !q.matches(c) {
				continue
			}
			if len(f.rows) == pageSize {
				f.next = cursor{skip: k, token: at.token}
				return f, nil
			}
			f.rows = append(f.rows, rowOf(c))
		}
		f.read += len(list.Items)
		at = cursor{token: list.Metadata.Continue}
		if list.Metadata.Continue == "" {
			return f, nil
		}
		if len(f.rows) == pageSize || f.read >= longestSearch {
			f.next = at
			return f, nil
		}
	}
}

func rowOf(c *v1alpha1.ApiClient) row {
	managed, _ := managerOf(c)
	return row{
		Namespace: c.Namespace, Name: c.Name, Realm: c.Spec.RealmRef.Name, ClientID: c.EffectiveClientID(),
		Description: c.Spec.Description, State: stateOf(c.Status.Conditions, c.Generation), Managed: managed.Tool,
	}
}

// read asks the API server for a part of the list. It filters by realm itself; before
// Kubernetes 1.31 it can't, and that is left to matches.
func (v *visit) read(q listQuery, token string) (*listed, error) {
	page := access.Page{Namespace: q.Namespace, Realm: q.Realm, Limit: pageSize, Continue: token}
	if q.selective() {
		page.Limit = chunk
	}
	list := &listed{}
	err := v.as.ListApiClients(v.ctx(), page, list)
	if page.Realm != "" && apierrors.IsBadRequest(err) {
		page.Realm = ""
		err = v.as.ListApiClients(v.ctx(), page, list)
	}
	return list, err
}
