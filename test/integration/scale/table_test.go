//go:build scale

package scale_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/figures"
)

// The tests with the build constraint scale need minutes and a quiet machine, so only make scale runs
// them.
var (
	size       = flag.Int("scale", 20_000, "Number of ApiClients for the table of make scale")
	reportFile = flag.String("scale.report", "", "Path of the `file` for the table of make scale. If empty, none is written")
)

// addRow adds a row to the table. The test fails if the target isn't reached.
func addRow(t testing.TB, reached bool, what, measured, reach string) {
	t.Helper()
	figures.Table{Path: *reportFile}.Add(t, figures.Row{What: what, Measured: measured, Reach: reach, Reached: reached})
}

// median returns the median of the figures of several rounds, and all of them as text.
func median(figures []float64) (middle float64, all string) {
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[len(sorted)/2], strings.Trim(fmt.Sprintf("%.2f", figures), "[]")
}
