// Package node runs a single-node Kubernetes cluster as processes: a control plane, containerd,
// kubelet, kube-scheduler, kube-proxy and CoreDNS. It runs in an enclosure and doesn't clean up,
// because everything disappears with the enclosure.
package node

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/realmkeeper/realmkeeper/test/cluster/enclosure"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

const (
	scheduler = "kube-scheduler"
	// APIServer is the name of the API server's process.
	APIServer = "kube-apiserver"

	// dnsUser is the user name of CoreDNS and the name of its ClusterRole and binding.
	dnsUser = "system:coredns"

	// startTimeout limits the start of each program.
	startTimeout = time.Minute
	// stopTimeout limits the graceful exit of each program.
	stopTimeout = 5 * time.Second
)

// runDir contains the log and the record of each process and the files of the control plane.
var runDir = filepath.Join(enclosure.Dir, "run")

// Binaries returns the binaries to build in addition to those of the control plane.
func Binaries() []string { return []string{kubelet, scheduler, proxy, dns} }

// components are the processes of the node in start order.
var components = []string{
	"etcd", APIServer, "kube-controller-manager", "containerd", kubelet, scheduler, proxy, dns,
}

// users returns the API server users for the programs on the node.
func users() []controlplane.User {
	user := func(program, name string, groups ...string) controlplane.User {
		return controlplane.User{Name: name, Groups: groups, Kubeconfig: program + ".kubeconfig"}
	}
	return []controlplane.User{
		user(kubelet, "system:node:"+Name, "system:nodes"),
		user(scheduler, "system:kube-scheduler"),
		user(proxy, "system:kube-proxy"),
		user(dns, dnsUser),
	}
}

// node is a node that is being started.
type node struct {
	clients *kubernetes.Clientset
	started []*process.Process
}

// Start starts everything and returns when the node is Ready and Services and DNS work. It calls
// say before each step. After an error, some programs may be running.
func Start(ctx context.Context, say func(step string)) error {
	if err := writeConfig(Config(PluginDir())); err != nil {
		return fmt.Errorf("write the configuration of the node: %w", err)
	}
	n := &node{}
	for _, part := range []struct {
		step  string
		start func(context.Context) error
	}{
		{"Creating the network of the node ...", startNetwork},
		{"Starting etcd, kube-apiserver and kube-controller-manager ...", n.startControlPlane},
		{"Starting containerd ...", n.startContainerd},
		{"Starting kubelet and waiting until the node is Ready ...", hideKernelSettings},
		{"", n.startKubelet},
		{"Starting kube-scheduler, kube-proxy and CoreDNS ...", n.startScheduler},
		{"", n.startProxy},
		{"", n.allowDNS},
		{"", n.startDNS},
	} {
		if part.step != "" {
			say(part.step)
		}
		if err := part.start(ctx); err != nil {
			return err
		}
	}
	// A program may have exited after it was ready.
	for _, p := range n.started {
		if err := p.Exited(); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) startControlPlane(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*startTimeout)
	defer cancel()
	c, err := controlplane.Start(ctx, controlplane.Options{
		Dir: runDir, BinDir: enclosure.Bin, ControllerManager: true, Detach: true,
		Nodes: &controlplane.Nodes{Address: Address, ServiceRange: ServiceRange, Users: users()},
	})
	if err != nil {
		return err
	}
	n.clients, err = kubernetes.NewForConfig(c.RESTConfig())
	return err
}

func (n *node) startScheduler(ctx context.Context) error {
	return n.start(ctx, scheduler, binary(scheduler), []string{
		"--kubeconfig=" + kubeconfig(scheduler),
		"--leader-elect=false",
		"--secure-port=0",
	}, func(context.Context) error { return nil })
}

// start starts a program that outlives this one and waits until it is ready.
func (n *node) start(
	ctx context.Context, name, path string, args []string, ready func(context.Context) error,
) error {
	p, err := process.Start(process.Command{Name: name, Path: path, Args: args, Dir: runDir, Detach: true})
	if err != nil {
		return err
	}
	n.started = append(n.started, p)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return p.Await(ctx, ready)
}

func binary(name string) string        { return filepath.Join(enclosure.Bin, name) }
func runFile(name string) string       { return filepath.Join(runDir, name) }
func kubeconfig(program string) string { return runFile(program + ".kubeconfig") }

// Missing returns the programs of a started node that aren't running.
func Missing() []string {
	return slices.DeleteFunc(slices.Clone(components), func(name string) bool { return process.Running(runDir, name) })
}

// StopAPIServer stops only the API server, like a crash.
func StopAPIServer() error { return controlplane.StopDetachedAPIServer(runDir) }

// StartAPIServer restarts the API server and its clients on the node, and returns when they are ready.
// It does nothing if the API server is running.
//
// After a failed attempt, a client waits for up to a minute before it watches objects again. In other
// clusters, the controller manager and the scheduler don't wait that long, because they exit and are
// restarted if they can't renew their Leases. No test depends on how the other clients reconnect.
func StartAPIServer(ctx context.Context) error {
	if process.Running(runDir, APIServer) {
		return nil
	}
	startCtx, cancel := context.WithTimeout(ctx, 2*startTimeout)
	defer cancel()
	if err := controlplane.StartDetachedAPIServer(startCtx, runDir); err != nil {
		return fmt.Errorf("restart the API server: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", runFile("kubeconfig"))
	if err != nil {
		return err
	}
	n := &node{}
	if n.clients, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	for _, client := range []struct {
		name  string
		start func(context.Context) error
	}{
		{kubelet, n.startKubelet}, {scheduler, n.startScheduler}, {proxy, n.startProxy}, {dns, n.startDNS},
	} {
		if err := process.StopNamed(runDir, client.name, stopTimeout); err != nil {
			return err
		}
		if err := client.start(ctx); err != nil {
			return err
		}
	}
	return nil
}
