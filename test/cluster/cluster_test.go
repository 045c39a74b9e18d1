//go:build e2e

package main_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/realmkeeper/realmkeeper/test/cluster/cgroup"
	"github.com/realmkeeper/realmkeeper/test/cluster/node"
)

// TestLifecycle is a single test, because each start takes several seconds. The cluster is started
// after a killed start, of which up must remove everything, and beside the control groups of a kubelet
// that was killed.
func TestLifecycle(t *testing.T) {
	g := NewWithT(t)
	hierarchies, err := cgroup.Here()
	g.Expect(err).NotTo(HaveOccurred())
	for _, hierarchy := range hierarchies {
		group := filepath.Join(hierarchy, "kubepods")
		g.Expect(os.MkdirAll(filepath.Join(group, "besteffort"), 0o755)).To(Succeed())
		t.Cleanup(func() { _ = cgroup.Remove(group) })
	}
	c := newCluster(t)
	g.Expect(c.signalAt(t, "Starting kubelet", os.Kill)).To(MatchError("signal: killed"))
	g.Expect(c.run("up")).To(And(ContainSubstring("Removing the leftovers of an earlier start"), ContainSubstring("make cluster-down")))
	clients := c.clients(t)
	createPod(t, clients)
	restarts := func(g Gomega) int32 { return running(t, g, clients).RestartCount }
	g.Eventually(restarts, time.Minute).Should(BeZero())

	g.Expect(c.run("up")).To(ContainSubstring("already running."))
	_, err = cluster{program: c.program, dir: filepath.Join(t.TempDir(), "second")}.run("up")
	g.Expect(err).To(MatchError(And(ContainSubstring("a cluster is running in "+c.dir), ContainSubstring("only one"))))

	g.Expect(c.run("exec", "sh", "-c", "kill -9 $(head -n 1 /run/realmkeeper/run/kube-proxy.pid)")).To(BeEmpty())
	g.Eventually(func() error { // SIGKILL takes effect after kill has returned
		_, err := c.run("up")
		return err
	}, time.Minute).Should(MatchError(ContainSubstring("kube-proxy")))
	g.Expect(clients.Discovery().ServerVersion()).NotTo(BeNil())

	g.Expect(c.run("down")).To(ContainSubstring("Removed the cluster."))
	c.expectNothingLeft(t)
	g.Expect(c.run("down")).To(ContainSubstring("No cluster found"))
	_, err = c.run("load", "image.tar")
	g.Expect(err).To(MatchError(ContainSubstring("no cluster is running in " + c.dir)))
}

// cluster is a cluster in a directory and the program that runs it.
type cluster struct {
	program, dir string
	before       map[string]string // the state of the machine before the cluster is started
}

// newCluster prepares a cluster that is removed when the test ends. A shell waits until the
// pipe from the test is closed, so the cluster is removed even if the test is killed.
func newCluster(t *testing.T) cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("a node requires root")
	}
	dir := t.TempDir()
	c := cluster{program: filepath.Join(dir, "program"), dir: filepath.Join(dir, "cluster")}
	build := exec.Command("go", "build", "-buildvcs=false", "-o", c.program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	watchdog := exec.Command("/bin/sh", "-c", `cat >/dev/null; exec "$0" --dir "$1" down`, c.program, c.dir)
	watchdog.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := watchdog.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watchdog.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pipe.Close()
		if err := watchdog.Wait(); err != nil {
			t.Errorf("remove the cluster: %v", err)
		}
	})
	// Debian packages and built binaries are kept, so compare the machine with its state after
	// they are installed.
	const firstStepAfterInstalling = "Building the pause image"
	if err := c.signalAt(t, firstStepAfterInstalling, os.Interrupt); !strings.Contains(err.Error(), "interrupted") {
		t.Fatalf("interrupt a start after it has installed packages: %v", err)
	}
	c.before = machine(t)
	return c
}

// run returns the standard output of the program. The error contains its standard error.
func (c cluster) run(args ...string) (string, error) {
	command := exec.Command(c.program, append([]string{"--dir", c.dir}, args...)...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		err = errors.New(err.Error() + ": " + stderr.String())
	}
	return string(out), err
}

// signalAt starts up, sends a signal when it reaches the step, and returns its error.
func (c cluster) signalAt(t *testing.T, step string, signal os.Signal) error {
	t.Helper()
	up := exec.Command(c.program, "--dir", c.dir, "up")
	var stderr strings.Builder
	up.Stderr = &stderr
	steps, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(steps)
	for lines.Scan() && !strings.Contains(lines.Text(), step) {
	}
	if err := up.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	err = up.Wait()
	if signal != os.Kill {
		return errors.New(stderr.String())
	}
	return err
}

func (c cluster) clients(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

func (c cluster) expectNothingLeft(t *testing.T) {
	t.Helper()
	// A program that a killed start was running in the enclosure exits a moment later.
	NewWithT(t).Eventually(func() string { return cmp.Diff(c.before, machine(t)) }).
		WithTimeout(time.Minute).Should(BeEmpty(), "the state of the machine has changed")
	if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s still exists: %v", c.dir, err)
	}
}

// createPod creates a Pod from the only image that every node has. Its volumes are of the kinds
// that the kubelet mounts as separate file systems.
func createPod(t *testing.T, clients *kubernetes.Clientset) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}}
	memory := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pause"},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{
				{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: memory}},
				{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret"}}},
			},
			Containers: []corev1.Container{{
				Name: "pause", Image: node.PauseImage, ImagePullPolicy: corev1.PullNever,
				VolumeMounts: []corev1.VolumeMount{
					{Name: "memory", MountPath: "/memory"}, {Name: "secret", MountPath: "/secret"},
				},
			}},
		},
	}
	core := clients.CoreV1()
	if _, err := core.Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := core.Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// running returns the status of the Pod's container and requires that it is running.
func running(t *testing.T, g Gomega, clients *kubernetes.Clientset) corev1.ContainerStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	pod, err := clients.CoreV1().Pods("default").Get(ctx, "pause", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pod.Status.ContainerStatuses).To(HaveLen(1))
	status := pod.Status.ContainerStatuses[0]
	g.Expect(status.State.Running).NotTo(BeNil())
	return status
}
