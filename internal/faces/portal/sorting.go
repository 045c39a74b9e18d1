package portal

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// column is a column of the list by which users can sort.
type column struct {
	Key, Label string
	compare    func(a, b *row) int
}

var columns = []column{
	{"name", "Client", func(a, b *row) int { return cmp.Compare(a.Name, b.Name) }},
	{"namespace", "Namespace", func(a, b *row) int { return cmp.Compare(a.Namespace, b.Namespace) }},
	{"realm", "Realm", func(a, b *row) int { return cmp.Compare(a.Realm, b.Realm) }},
	// States that need attention come first.
	{"state", "State", func(a, b *row) int {
		return cmp.Compare(slices.Index(allStates, b.State.Name), slices.Index(allStates, a.State.Name))
	}},
	// Clients that were never used come first, and those that don't expire or rotate come last.
	{"used", "Last used", func(a, b *row) int { return compareTimes(a.LastUsed, b.LastUsed, -1) }},
	{"expires", "Expires", func(a, b *row) int { return compareTimes(a.Expires, b.Expires, 1) }},
	{"rotation", "Next rotation", func(a, b *row) int { return compareTimes(a.Rotation, b.Rotation, 1) }},
}

// compareTimes compares two times. unset is the order of an unset time relative to any other.
func compareTimes(a, b *metav1.Time, unset int) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return unset
	case b == nil:
		return -unset
	}
	return a.Compare(b.Time)
}

// sorting is the column by which a list is sorted. The zero value is the order of the API server, by
// namespace and name.
type sorting struct {
	key        string
	descending bool
}

const defaultColumn = "namespace"

// parseSorting parses the result of String. If s is invalid, it returns the order of the API server.
func parseSorting(s string) sorting {
	key, descending := strings.CutPrefix(s, "-")
	known := slices.ContainsFunc(columns, func(c column) bool { return c.Key == key })
	if !known || key == defaultColumn && !descending {
		return sorting{}
	}
	return sorting{key: key, descending: descending}
}

func (s sorting) String() string {
	if s.descending {
		return "-" + s.key
	}
	return s.key
}

// compare returns the function that compares rows.
func (s sorting) compare() func(a, b row) int {
	k := slices.IndexFunc(columns, func(c column) bool { return c.Key == cmp.Or(s.key, defaultColumn) })
	return func(a, b row) int {
		order := columns[k].compare(&a, &b)
		if s.descending {
			order = -order
		}
		return cmp.Or(order, cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}
}

// firstRows keeps the first rows in an order. Its memory doesn't depend on the number of rows that
// are added.
type firstRows struct {
	compare func(a, b row) int
	limit   int
	rows    []row
}

func (f *firstRows) add(r row) {
	f.rows = append(f.rows, r)
	if len(f.rows) >= 2*f.limit {
		f.trim()
	}
}

// trim sorts the rows and removes those after the limit.
func (f *firstRows) trim() {
	slices.SortFunc(f.rows, f.compare)
	f.rows = f.rows[:min(len(f.rows), f.limit)]
}
