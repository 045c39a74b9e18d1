// Package attack_test attacks the programs that are exposed to strangers: the token server and the
// portal. They run as in a container, with a limit of memory and a core of their own, and must
// remain available to honest clients. docs/operations/overload.md describes the limits.
package attack_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/test/attack/attacker"
	"github.com/realmkeeper/realmkeeper/test/attack/confine"
	"github.com/realmkeeper/realmkeeper/test/attack/corpus"
	"github.com/realmkeeper/realmkeeper/test/attack/flood"
	"github.com/realmkeeper/realmkeeper/test/attack/report"
	"github.com/realmkeeper/realmkeeper/test/attack/tokens"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

var (
	duration   = flag.Duration("attack.duration", 4*time.Second, "Duration of each flood")
	each       = flag.Duration("attack.corpus", 300*time.Millisecond, "Duration of each attack of the corpus")
	reportFile = flag.String("attack.report", "", "Path of the `file` for the report. If empty, none is written")
)

// results contains a row for each attack of this run.
var results report.Report

// writeReport writes the results so far at the end of the test.
func writeReport(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		t.Logf("Results:\n%s", results.String())
		if *reportFile == "" {
			return
		}
		if err := os.WriteFile(*reportFile, []byte(results.String()), 0o644); err != nil {
			t.Error(err)
		}
	})
}

func TestMain(m *testing.M) {
	attacks := maps.Clone(flood.Attacks)
	maps.Copy(attacks, corpus.Attacks)
	maps.Copy(attacks, tokens.Attacks)
	attacker.Main(attacks) // attackers and relays don't return
	flag.Parse()
	if err := confine.LeaveServerCore(); err != nil {
		fmt.Fprintln(os.Stderr, "Failed to leave a core to the attacked servers:", err)
		os.Exit(1)
	}
	// The control plane starts here, away from the server's core.
	env.Main(m, env.WithCRDs())
}
