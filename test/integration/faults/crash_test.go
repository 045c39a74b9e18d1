package faults_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

var crashAll = flag.Bool("crash-all", false, "have every single write fail, not a sample of them")

// In a sample the operator is killed before one in so many writes, and after one in so many.
const stride = 48

// Where nobody is killed one write in so many fails.
const share = 2

// Any write may fail, before it takes effect or after, and the operator may be killed at it:
// in the end everything is as if that had not been, and no workload has noticed.
func TestAnyWriteFails(t *testing.T) {
	cluster := env.Start(t)
	want, writes := undisturbed(t, cluster)
	step, runs := stride, 1
	if *crashAll {
		step, runs = 1, share
	}
	for name, test := range map[string]struct {
		fault install.Fault
		kill  bool
		// first is the first write at which the operator is killed, or where one in share fails, which.
		first int
	}{
		"killed before": {fault: install.RequestLost, kill: true, first: (step + 1) / 2},
		"killed after":  {fault: install.ResponseLost, kill: true, first: step},
		"fails before":  {fault: install.Rejected},
		"fails after":   {fault: install.ResponseLost, first: 1},
	} {
		run := func(name string, fails func(number int) bool) {
			t.Run(name, func(t *testing.T) {
				disturbed(t, cluster, want, test.kill, func(number int) install.Fault {
					if fails(number) {
						return test.fault
					}
					return install.NoFault
				})
			})
		}
		if test.kill {
			for one := test.first; one <= writes; one += step {
				run(fmt.Sprintf("%s write %d", name, one), func(number int) bool { return number == one })
			}
			continue
		}
		for rest := test.first; rest < test.first+runs; rest++ {
			run(fmt.Sprintf("%s, one write in %d, %d", name, share, rest), func(number int) bool { return (number+rest)%share == 0 })
		}
	}
}

// undisturbed tells the story without faults.
func undisturbed(t *testing.T, cluster *env.Env) (want scenario.State, writes int) {
	t.Helper()
	t.Run("undisturbed", func(t *testing.T) {
		s := newStory(t, cluster)
		proxy := s.tell(t, install.Faults{})
		s.inst.AwaitQuiet(t, proxy)
		want, writes = scenario.StateOf(t, s.inst, s.team), proxy.Writes()
	})
	if writes == 0 {
		t.Fatal("the undisturbed run writes nothing")
	}
	t.Logf("The undisturbed run makes %d writes", writes)
	return want, writes
}

// disturbed tells the story with faults, which kill the operator if so wanted, and compares its end.
func disturbed(t *testing.T, cluster *env.Env, want scenario.State, kill bool, of func(int) install.Fault) {
	t.Helper()
	s := newStory(t, cluster)
	faults := install.Faults{Of: of}
	if kill {
		faults.Then = func() { s.inst.KillAndRestartOperator(t) }
	}
	proxy := s.tell(t, faults)
	install.Eventually(t, "the state to be that of the undisturbed run", func() error {
		if diff := cmp.Diff(want, scenario.StateOf(t, s.inst, s.team)); diff != "" {
			return fmt.Errorf("it differs (-want +got):\n%s", diff)
		}
		return nil
	})
	t.Logf("These writes failed: %q", proxy.Failed())
}
