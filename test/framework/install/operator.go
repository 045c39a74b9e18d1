package install

import (
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// StartOperator starts the operator with the permissions of its service account. kubeconfig is the
// path of its kubeconfig. If it is empty, the operator uses the environment's kubeconfig.
func (i *Installation) StartOperator(t testing.TB, kubeconfig string) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.startOperator(i.binary(t, "operator"), i.kubeconfigAs(t, operatorAccount, i.Pod, kubeconfig)); err != nil {
		t.Fatal(err)
	}
}

// StartSecondOperator starts an operator in addition to the one that StartOperator started. It runs
// until the end of the test, unless the caller stops it.
func (i *Installation) StartSecondOperator(t testing.TB, kubeconfig string) *process.Process {
	t.Helper()
	command := i.operatorCommand(i.binary(t, "operator"), i.kubeconfigAs(t, operatorAccount, i.Pod, kubeconfig), "0")
	command.Name = "second-operator"
	second, err := process.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Stop(grace); err != nil {
			t.Errorf("Failed to stop the second operator: %v", err)
		}
	})
	return second
}

func (i *Installation) startOperator(path, kubeconfig string) (err error) {
	i.operator, err = process.Start(i.operatorCommand(path, kubeconfig, i.metrics.Address()))
	return err
}

func (i *Installation) operatorCommand(path, kubeconfig, metrics string) process.Command {
	environment := append([]string{"POD_NAME=" + i.Pod}, i.OperatorEnv...)
	if i.Env.RaceDetector {
		// client-go ends the operator if it changes an object of a cache. Reads don't copy these.
		environment = append(environment, "KUBE_CACHE_MUTATION_DETECTOR=true")
	}
	return process.Command{
		Name: "operator", Path: path, Dir: i.dir, Env: environment,
		Args: []string{
			"--config", i.config, "--namespace", i.Namespace, "--records-namespace", i.RecordsNamespace, "--kubeconfig", kubeconfig,
			"--leader-elect=" + strconv.FormatBool(i.LeaderElection), "--health-probe-bind-address=0", "--metrics-bind-address=" + metrics,
			"--kms-socket=" + i.KMSSocket,
		},
	}
}

// StopOperator shuts down the operator gracefully.
func (i *Installation) StopOperator(t testing.TB) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.operator == nil {
		return
	}
	if err := i.operator.Stop(grace); err != nil {
		t.Errorf("Failed to stop the operator: %v", err)
	}
	i.operator = nil
}

// OperatorRefusal waits until the operator exits on its own and returns the last line of its log.
func (i *Installation) OperatorRefusal(t testing.TB) string {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	select {
	case <-i.operator.Done():
	case <-time.After(timeout):
		t.Fatal("Timed out waiting for the operator to exit")
	}
	i.operator = nil
	lines := strings.Split(strings.TrimSpace(string(i.OperatorLog(t))), "\n")
	return lines[len(lines)-1]
}

// KillAndRestartOperator kills the operator with SIGKILL and restarts it with the environment's
// kubeconfig. It can be called from any goroutine.
func (i *Installation) KillAndRestartOperator(t testing.TB) {
	t.Helper()
	i.KillAndRestartOperatorWith(t, "")
}

// KillAndRestartOperatorWith is like KillAndRestartOperator with the kubeconfig at the given path.
func (i *Installation) KillAndRestartOperatorWith(t testing.TB, kubeconfig string) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	err := i.operator.Kill()
	if err == nil {
		err = i.startOperator(i.binary(t, "operator"), i.kubeconfigAs(t, operatorAccount, i.Pod, kubeconfig))
	}
	if err != nil {
		t.Errorf("Failed to kill and restart the operator: %v", err)
	}
}

// FreezeOperator stops the operator with SIGSTOP, as if its node were suspended, until the returned
// function is called or the test ends.
func (i *Installation) FreezeOperator(t testing.TB) (thaw func()) {
	t.Helper()
	i.mu.Lock()
	pid := i.operator.PID()
	i.mu.Unlock()
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(pid, s); err != nil {
			t.Errorf("Failed to send %s to the operator: %v", s, err)
		}
	}
	thaw = sync.OnceFunc(func() { signal(syscall.SIGCONT) })
	t.Cleanup(thaw)
	signal(syscall.SIGSTOP)
	return thaw
}

// OperatorLog returns the log of the operator, including processes that have ended.
func (i *Installation) OperatorLog(t testing.TB) []byte {
	t.Helper()
	return i.log(t, "operator")
}
