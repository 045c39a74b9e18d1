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

var everyWrite = flag.Bool("every-write", false, "Also kill the operator at every single write, in a run of its own")

// stride is the distance between two writes at which the operator is killed in the run that samples them.
const stride = 64

// TestAnyWriteFails makes writes fail before or after they take effect, and kills the operator at some of
// them. The final state must be the same as without faults, and workloads must have valid credentials at
// all times.
func TestAnyWriteFails(t *testing.T) {
	cluster := env.Start(t)
	want, writes := runWithoutFaults(t, cluster)
	if writes < 2*stride {
		t.Errorf("only %d writes, too few to kill the operator both before and after one", writes)
	}
	t.Run("a sample", func(t *testing.T) {
		runWithFaults(t, cluster, want, sampledFault, func(write install.Write) bool { return write.Number%stride == 0 })
	})
	if !*everyWrite {
		return
	}
	for fault, name := range map[install.Fault]string{install.RequestLost: "before", install.ResponseLost: "after"} {
		for one := range writes {
			t.Run(fmt.Sprintf("killed %s write %d", name, one+1), func(t *testing.T) {
				isOne := func(write install.Write) bool { return write.Number == one+1 }
				runWithFaults(t, cluster, want, func(write install.Write) install.Fault {
					if isOne(write) {
						return fault
					}
					return install.NoFault
				}, isOne)
			})
		}
	}
}

// sampledFault loses the writes at which the operator is killed, in turn before and after they take
// effect. Of the others, it makes half fail, in turn in the same two ways.
//
// The parity of the bits (the Thue-Morse sequence) is never the same three times in succession, and has
// no period. So the writes of one object fail at most twice in a row, and a retry that always makes two
// of them does not fail forever.
func sampledFault(write install.Write) install.Fault {
	switch {
	case write.Number%(2*stride) == stride:
		return install.RequestLost
	case write.Number%stride == 0:
		return install.ResponseLost
	case bits.OnesCount(uint(write.ToPath+len(write.Path)))%2 == 0:
		return install.NoFault
	case write.Number%2 == 0:
		return install.RequestLost
	}
	return install.ResponseLost
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

// runWithFaults runs the scenario with faults and compares the final state with the wanted one. Faults at
// which kills is true also kill the operator.
func runWithFaults(t *testing.T, cluster *env.Env, want scenario.State, of func(install.Write) install.Fault, kills func(install.Write) bool) {
	t.Helper()
	s := newChangeScenario(t, cluster)
	faults := install.Faults{Of: of, Then: func(write install.Write) {
		if kills(write) {
			s.inst.KillAndRestartOperatorWith(t, s.kubeconfig)
		}
	}}
	proxy := s.run(t, faults)
	install.Eventually(t, "the state to match the run without faults", func() error {
		if diff := cmp.Diff(want, scenario.StateOf(t, s.inst, s.team)); diff != "" {
			return fmt.Errorf("the state differs (-want +got):\n%s", diff)
		}
		return nil
	})
	t.Logf("These writes failed: %q", proxy.Failed())
}
