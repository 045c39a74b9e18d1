package portal

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// listQuery contains the filters and the order of a list and the start of the requested page.
type listQuery struct {
	Namespace, Realm, State, Search string
	// Attention is the key of one of the attentions, or empty.
	Attention string
	Sort      sorting
	// From is the start of the page. The zero value is the start of the list.
	From cursor
}

// attention is a reason why a client needs attention. Lists can be filtered by it.
type attention struct {
	Key, Label string
	help       string
	needed     func(*row) bool
	// order is the order in which the overview lists the clients.
	order sorting
}

var attentions = []attention{
	{"expiring", "Expires soon", "Within 30 days", func(r *row) bool { return r.ExpiresSoon }, sorting{key: "expires"}},
	{"unused", "Unused credentials", "", func(r *row) bool { return r.Unused > 0 }, sorting{key: "used"}},
	{"old-secret", "Old secret in use", "After a rotation", func(r *row) bool { return r.OldSecretInUse }, sorting{}},
}

// attentionFor returns the attention with the given key.
func attentionFor(key string) (attention, bool) {
	k := slices.IndexFunc(attentions, func(a attention) bool { return a.Key == key })
	if k < 0 {
		return attention{}, false
	}
	return attentions[k], true
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
	if !ok || err != nil || n < 0 || n > maxScanned {
		return cursor{}
	}
	return cursor{skip: n, token: token}
}

func parseListQuery(values url.Values) listQuery {
	get := func(key string) string { return strings.TrimSpace(values.Get(key)) }
	q := listQuery{
		Namespace: get("namespace"), Realm: get("realm"), State: get("state"), Search: get("search"), Attention: get("attention"),
		Sort: parseSorting(get("sort")), From: parseCursor(values.Get("from")),
	}
	if !slices.Contains(allStates, q.State) {
		q.State = ""
	}
	if _, ok := attentionFor(q.Attention); !ok {
		q.Attention = ""
	}
	return q
}

// path returns the path of the page that starts at from.
func (q listQuery) path(from cursor) string {
	values := url.Values{}
	for _, parameter := range []struct{ key, value string }{
		{"namespace", q.Namespace},
		{"realm", q.Realm},
		{"state", q.State},
		{"attention", q.Attention},
		{"search", q.Search},
		{"sort", q.Sort.String()},
		{"from", from.String()},
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
func (q listQuery) filtersHere() bool { return q.State != "" || q.Attention != "" || q.Search != "" }

// sortsHere reports whether the query has an order that the API server doesn't support.
func (q listQuery) sortsHere() bool {
	return q.Sort != sorting{} && (q.Namespace == "" || q.Sort != sorting{key: "name"})
}

// matches reports whether a client matches the filters that the API server doesn't support.
func (q listQuery) matches(r *row) bool {
	if q.State != "" && r.State.Name != q.State {
		return false
	}
	if a, ok := attentionFor(q.Attention); ok && !a.needed(r) {
		return false
	}
	if q.Search == "" {
		return true
	}
	term := strings.ToLower(q.Search)
	return slices.ContainsFunc([]string{r.Name, r.Namespace, r.ClientID, r.Description}, func(s string) bool {
		return strings.Contains(strings.ToLower(s), term)
	})
}

// header is the header of a column.
type header struct {
	column
	// Path is the path of the list sorted by the column. If the list is already sorted by the column,
	// Path has the opposite order.
	Path string
	// Order is ascending or descending if the list is sorted by the column, as in aria-sort.
	Order string
}

// Headers returns the headers of the columns.
func (q listQuery) Headers() []header {
	headers := make([]header, 0, len(columns))
	for _, c := range columns {
		h, sorted := header{column: c}, q
		sorted.Sort = parseSorting(c.Key)
		if cmp.Or(q.Sort.key, defaultColumn) == c.Key {
			h.Order = "ascending"
			if q.Sort.descending {
				h.Order = "descending"
			} else {
				sorted.Sort = parseSorting("-" + c.Key)
			}
		}
		h.Path = sorted.path(cursor{})
		headers = append(headers, h)
	}
	return headers
}

// order is a sort option. Phones show the options instead of the headers.
type order struct {
	Value, Label string
	Selected     bool
}

// Orders returns the options to sort the list.
func (q listQuery) Orders() []order {
	orders := make([]order, 0, 2*len(columns))
	for _, c := range columns {
		for _, s := range []sorting{parseSorting(c.Key), parseSorting("-" + c.Key)} {
			label := c.Label
			if s.descending {
				label += " (descending)"
			}
			orders = append(orders, order{Value: s.String(), Label: label, Selected: s == q.Sort})
		}
	}
	return orders
}
