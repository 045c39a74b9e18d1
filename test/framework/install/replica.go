package install

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// Replica is one of several operators that elect a leader. It has a Pod, whose status says whether its container
// runs, although no kubelet runs it.
type Replica struct {
	inst            *Installation
	pod             *corev1.Pod
	command         process.Command
	process         *process.Process
	probes, metrics *controlplane.Port
}

// StartReplica starts an operator as the container of a new Pod with the given name. kubeconfig is the path of its
// kubeconfig. If it is empty, the operator uses the environment's kubeconfig. It runs until the end of the test.
func (i *Installation) StartReplica(t testing.TB, pod, kubeconfig string) *Replica {
	t.Helper()
	r := &Replica{inst: i, pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: pod},
		Spec:       corev1.PodSpec{ServiceAccountName: operatorAccount, Containers: []corev1.Container{{Name: "operator", Image: "realmkeeper:test"}}},
	}}
	if err := i.Env.Client.Create(t.Context(), r.pod); err != nil {
		t.Fatal(err)
	}
	for _, port := range []**controlplane.Port{&r.probes, &r.metrics} {
		var err error
		if *port, err = controlplane.ReservePort(); err != nil {
			t.Fatal(err)
		}
	}
	r.command = i.operatorCommand(i.binary(t, "operator"), i.kubeconfigAs(t, operatorAccount, pod, kubeconfig), r.metrics.Address())
	r.command.Name = pod
	r.command.Env = append([]string{"POD_NAME=" + pod}, i.OperatorEnv...)
	r.command.Args = append(r.command.Args, "--leader-elect=true", "--health-probe-bind-address="+r.probes.Address())
	t.Cleanup(func() {
		if err := r.process.Stop(grace); err != nil {
			t.Errorf("Failed to stop %s: %v", pod, err)
		}
		r.probes.Release()
		r.metrics.Release()
		if t.Failed() {
			t.Logf("Tail of the log of %s:\n%s", pod, r.process.LogTail())
		}
	})
	r.Start(t)
	return r
}

// Start starts the container, also again after Kill.
func (r *Replica) Start(t testing.TB) {
	t.Helper()
	var err error
	if r.process, err = process.Start(r.command); err != nil {
		t.Fatal(err)
	}
	r.report(t, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
}

// Kill kills the container with SIGKILL. The status of the Pod doesn't say so before ReportKilled.
func (r *Replica) Kill(t testing.TB) {
	t.Helper()
	if err := r.process.Kill(); err != nil {
		t.Fatal(err)
	}
}

// Stop stops the operator gracefully.
func (r *Replica) Stop(t testing.TB) {
	t.Helper()
	if err := r.process.Stop(grace); err != nil {
		t.Fatal(err)
	}
}

// ReportKilled writes to the status of the Pod that the container has been killed, and doesn't run again yet.
func (r *Replica) ReportKilled(t testing.TB) {
	t.Helper()
	r.report(t, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})
}

func (r *Replica) report(t testing.TB, state corev1.ContainerState) {
	t.Helper()
	r.pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "operator", Image: "realmkeeper:test", State: state}}}
	if err := r.inst.Env.Client.Status().Update(t.Context(), r.pod); err != nil {
		t.Error(err)
	}
}

// Ready returns nil if the operator is ready, and an error otherwise.
func (r *Replica) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.probes.Address()+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz responded with %s: %s, %w", response.Status, body, err)
	}
	return nil
}

// AwaitReady waits until the operator is ready.
func (r *Replica) AwaitReady(t testing.TB) {
	t.Helper()
	Eventually(t, r.pod.Name+" to be ready", func() error {
		if err := r.process.Exited(); err != nil {
			return err
		}
		return r.Ready(t.Context())
	})
}

// Metrics returns the /metrics page of the operator.
func (r *Replica) Metrics(t testing.TB) string {
	t.Helper()
	return metrics(t, "http://"+r.metrics.Address())
}
