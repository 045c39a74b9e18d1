// Package node runs a Kubernetes cluster of one node as processes beside each other: a
// control plane, containerd, kubelet, kube-scheduler, kube-proxy and CoreDNS. It runs in
// an enclosure, whose end is that of the cluster too; it doesn't tidy up.
package node

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/realmkeeper/realmkeeper/test/cluster/enclosure"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

const (
	scheduler = "kube-scheduler"
	// APIServer is the name of its process.
	APIServer = "kube-apiserver"

	// dnsUser is CoreDNS's name before the API server, and that of its rights.
	dnsUser = "system:coredns"

	// patience bounds the start of each program.
	patience = time.Minute
)

// runDir holds the log and the record of every process, and what belongs to the control
// plane.
var runDir = filepath.Join(enclosure.Dir, "run")

// Binaries are those to build beside the control plane's.
func Binaries() []string { return []string{kubelet, scheduler, proxy, dns} }

// components are the processes of the node, in the order of their start.
var components = []string{
	"etcd", APIServer, "kube-controller-manager", "containerd", kubelet, scheduler, proxy, dns,
}

// users are those of the node's programs before the API server, by program.
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

// node is one being started.
type node struct {
	clients *kubernetes.Clientset
	started []*process.Process
}

// Start starts everything and returns when the node is Ready and Services and names work.
// say is told each step. After an error some of it may run.
func Start(ctx context.Context, say func(step string)) error {
	if err := writeConfig(Config(PluginDir())); err != nil {
		return fmt.Errorf("write the configuration of the node: %w", err)
	}
	n := &node{}
	for _, part := range []struct {
		step  string
		start func(context.Context) error
	}{
		{"Making the network of the node ...", startNetwork},
		{"Starting etcd, kube-apiserver and kube-controller-manager ...", n.startControlPlane},
		{"Starting containerd ...", n.startContainerd},
		{"Starting kubelet and waiting until the node is Ready ...", n.startKubelet},
		{"Starting kube-scheduler, kube-proxy and CoreDNS ...", n.startScheduler},
		{"", n.startProxy},
		{"", n.startDNS},
	} {
		if part.step != "" {
			say(part.step)
		}
		if err := part.start(ctx); err != nil {
			return err
		}
	}
	// One that nobody waited for may have ended by now.
	for _, p := range n.started {
		if err := p.Exited(); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) startControlPlane(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
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

// start starts a program that outlives this one, and waits until it is ready.
func (n *node) start(
	ctx context.Context, name, path string, args []string, ready func(context.Context) error,
) error {
	p, err := process.Start(process.Command{Name: name, Path: path, Args: args, Dir: runDir, Detach: true})
	if err != nil {
		return err
	}
	n.started = append(n.started, p)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.Await(ctx, ready)
}

func binary(name string) string        { return filepath.Join(enclosure.Bin, name) }
func runFile(name string) string       { return filepath.Join(runDir, name) }
func kubeconfig(program string) string { return runFile(program + ".kubeconfig") }

// Missing returns the programs of a started node that don't run.
func Missing() []string {
	return slices.DeleteFunc(slices.Clone(components), func(name string) bool { return process.Running(runDir, name) })
}

// StopAPIServer ends the API server as a crash would, and nothing else.
func StopAPIServer() error { return controlplane.StopDetachedAPIServer(runDir) }

// StartAPIServer starts it again and returns when it is ready. It does nothing while it
// runs.
func StartAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := controlplane.StartDetachedAPIServer(ctx, runDir); err != nil {
		return fmt.Errorf("start the API server again: %w", err)
	}
	return nil
}
