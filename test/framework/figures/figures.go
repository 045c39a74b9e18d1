// Package figures collects the measurements of make scale as rows of a table.
package figures

import (
	"fmt"
	"os"
	"testing"
)

// Table is a file with one row per line. The zero value writes no file and only checks the figures.
type Table struct {
	// Path is the path of the file. Rows are appended.
	Path string
}

// Row is a measured figure.
type Row struct {
	What     string
	Measured string
	// Reach is the target, and Reached reports whether the figure meets it.
	Reach   string
	Reached bool
}

const format = "%-52s  %-28s  %-18s  %s\n"

// Add adds a row. A figure that misses its target fails the test.
func (table Table) Add(t testing.TB, row Row) {
	t.Helper()
	verdict := "reached"
	if !row.Reached {
		verdict = "MISSED"
		t.Errorf("%s: %s, want %s", row.What, row.Measured, row.Reach)
	}
	t.Logf("%s: %s", row.What, row.Measured)
	if table.Path == "" {
		return
	}
	file, err := os.OpenFile(table.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Error(err)
		return
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() == 0 {
		fmt.Fprintf(file, format, "what", "measured", "reach", "verdict")
	}
	if _, err := fmt.Fprintf(file, format, row.What, row.Measured, row.Reach, verdict); err != nil {
		t.Error(err)
	}
}
