package faults_test

import (
	"flag"
	"fmt"
	"math/bits"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

var everyWrite = flag.Bool("every-write", false, "Inject a fault at every write instead of a sample")

// stride is the distance between two writes at which the operator is killed. The sample skips the
// writes in between.
const stride = 96

// failureRate is the number of writes per injected failure if the operator is not killed.
const failureRate = 2

// TestAnyWriteFails makes writes fail before or after they take effect, or kills the operator at
// that point. The final state must be the same as without faults, and workloads must have valid
// credentials at all times.
func TestAnyWriteFails(t *testing.T) {
	cluster := env.Start(t)
	want, writes := runWithoutFaults(t, cluster)
	step, runs := stride, 1
	if *everyWrite {
		step, runs = 1, failureRate
	}
	for name, test := range map[string]struct {
		fault install.Fault
		kill  bool
		// first is the first write at which the operator is killed. If kill is false, it is the offset
		// that selects which writes fail.
		first int
	}{
		"killed before": {fault: install.RequestLost, kill: true, first: (step + 1) / 2},
		"killed after":  {fault: install.ResponseLost, kill: true, first: step},
		"fails before":  {fault: install.Rejected},
		"fails after":   {fault: install.ResponseLost, first: 1},
	} {
		run := func(name string, fails func(install.Write) bool) {
			t.Run(name, func(t *testing.T) {
				runWithFaults(t, cluster, want, test.kill, func(write install.Write) install.Fault {
					if fails(write) {
						return test.fault
					}
					return install.NoFault
				})
			})
		}
		if test.kill {
			for one := test.first; one <= writes; one += step {
				run(fmt.Sprintf("%s write %d", name, one), func(write install.Write) bool { return write.Number == one })
			}
			continue
		}
		for rest := test.first; rest < test.first+runs; rest++ {
			// Every write fails in one of the runs. The parity of the bits (the Thue-Morse sequence) is never
			// the same three times in succession, and has no period. So the writes of one object fail at
			// most twice in a row, and a retry that always makes two of them does not fail forever.
			run(fmt.Sprintf("%s, one in %d writes, offset %d", name, failureRate, rest), func(write install.Write) bool {
				return bits.OnesCount(uint(write.ToPath+len(write.Path)))%failureRate == rest%failureRate
			})
		}
	}
}

// runWithoutFaults runs the scenario without faults.
func runWithoutFaults(t *testing.T, cluster *env.Env) (want scenario.State, writes int) {
	t.Helper()
	t.Run("without faults", func(t *testing.T) {
		s := newChangeScenario(t, cluster)
		proxy := s.run(t, install.Faults{})
		s.inst.AwaitQuiet(t, proxy)
		want, writes = scenario.StateOf(t, s.inst, s.team), proxy.Writes()
	})
	if writes == 0 {
		t.Fatal("the run without faults made no writes")
	}
	t.Logf("The run without faults made %d writes", writes)
	return want, writes
}

// runWithFaults runs the scenario with faults and compares the final state with the wanted one. If
// kill is true, each fault also kills the operator.
func runWithFaults(t *testing.T, cluster *env.Env, want scenario.State, kill bool, of func(install.Write) install.Fault) {
	t.Helper()
	s := newChangeScenario(t, cluster)
	faults := install.Faults{Of: of}
	if kill {
		faults.Then = func() { s.inst.KillAndRestartOperator(t) }
	}
	proxy := s.run(t, faults)
	install.Eventually(t, "the state to match the run without faults", func() error {
		if diff := cmp.Diff(want, scenario.StateOf(t, s.inst, s.team)); diff != "" {
			return fmt.Errorf("the state differs (-want +got):\n%s", diff)
		}
		return nil
	})
	t.Logf("These writes failed: %q", proxy.Failed())
}
