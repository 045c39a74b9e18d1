package output

import (
	"fmt"
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
)

// Named writes a heading and the first of the names.
func Named(w *terminal.Writer, color terminal.Color, heading string, names []string) {
	const most = 20
	if len(names) == 0 {
		return
	}
	w.Paragraph(2, color, heading)
	for _, name := range names[:min(most, len(names))] {
		w.Paragraph(4, terminal.Plain, name)
	}
	if more := len(names) - most; more > 0 {
		w.Paragraph(4, terminal.Plain, fmt.Sprintf("and %d more", more))
	}
}

// Has returns the verb for a number of things.
func Has(n int) string {
	if n == 1 {
		return " has"
	}
	return " have"
}

// Number formats a number of things, such as "2 realms".
func Number(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// OrNone lists values, or returns none if there are no values.
func OrNone(values []string, none string) string {
	if len(values) == 0 {
		return none
	}
	return strings.Join(values, ", ")
}
