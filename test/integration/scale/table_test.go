package scale_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

var (
	size       = flag.Int("scale", 0, "Number of ApiClients for the table of make scale; 0 skips its tests")
	reportFile = flag.String("scale.report", "", "Path of the `file` for the table of make scale. If empty, none is written")
)

// scaleOnly skips a test that make scale runs and CI doesn't.
func scaleOnly(t *testing.T) {
	t.Helper()
	if *size == 0 {
		t.Skip("-scale is not set; see make scale")
	}
}

// table contains the results of make scale so far.
var table [][]string

// addRow adds a row to the table. A row that isn't reached fails the test.
func addRow(t testing.TB, reached bool, what, measured, reach string) {
	t.Helper()
	verdict := "reached"
	if !reached {
		verdict = "MISSED"
		t.Errorf("%s: %s, want %s", what, measured, reach)
	}
	t.Logf("%s: %s", what, measured)
	table = append(table, []string{what, measured, reach, verdict})
	if *reportFile == "" {
		return
	}
	if err := os.WriteFile(*reportFile, rendered(), 0o644); err != nil {
		t.Error(err)
	}
}

func rendered() []byte {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{{"what", "measured", "reach", "verdict"}}, table...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	return text.Bytes()
}

// median returns the median of the figures of several rounds, and all of them as text.
func median(figures []float64) (middle float64, all string) {
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[len(sorted)/2], strings.Trim(fmt.Sprintf("%.2f", figures), "[]")
}
