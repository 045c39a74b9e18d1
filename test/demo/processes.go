package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// operator is the name of the process. The ServiceAccount is named realmkeeper-operator.
const operator = "operator"

// components are the processes of a demo in start order.
var components = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", operator, tokenServer(0), tokenServer(1), portal,
}

func tokenServer(i int) string { return fmt.Sprintf("token-server-%d", i) }

func isControlPlane(name string) bool { return slices.Contains(components[:3], name) }

func (d *demo) isRunning(name string) bool { return process.Running(d.runDir(), name) }

// running returns the components that are running.
func (d *demo) running() []string {
	return slices.DeleteFunc(slices.Clone(components), func(name string) bool { return !d.isRunning(name) })
}

// startControlPlane starts a control plane if none is running and connects to it. The
// controller manager creates Pods for Deployments. They stay Pending, because there are
// no nodes.
func (d *demo) startControlPlane(ctx context.Context) error {
	if !d.isRunning(components[0]) {
		d.Step("Starting etcd, kube-apiserver and kube-controller-manager ...")
		bounded, cancel := context.WithTimeout(ctx, 2*timeout)
		defer cancel()
		var err error
		d.controlPlane, err = controlplane.Start(bounded, controlplane.Options{
			Dir: d.runDir(), BinDir: d.binDir, ControllerManager: true, Detach: true,
		})
		if err != nil {
			return err
		}
	}
	return errors.Join(d.connect(), d.ports.choose(d.file(portsFile)))
}

// build builds the programs unless all of them are running.
func (d *demo) build(ctx context.Context) error {
	if len(d.running()) == len(components) {
		return nil
	}
	d.Step("Building the operator, the token server and the portal; about 20 s after a change ...")
	args := slices.Concat([]string{"build"}, controlplane.ProductFlags, []string{"-ldflags=-s -w", "-o", d.file("bin") + string(filepath.Separator)})
	build := exec.CommandContext(ctx, "go", append(args, "./cmd/operator", "./cmd/token-server", "./cmd/portal")...)
	build.Dir = d.root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the operator, the token server and the portal: %w", err)
	}
	return nil
}

// start starts one of the built programs. It outlives this program and inherits the locks
// on its ports.
func (d *demo) start(program, name string, ports []int, args ...string) error {
	var locks []*os.File
	for _, port := range ports {
		if lock := d.ports.locks[port]; lock != nil {
			locks = append(locks, lock)
		}
	}
	d.Step("Starting %s ...", name)
	p, err := process.Start(process.Command{
		Name: name, Path: filepath.Join(d.file("bin"), program), Args: args,
		Dir: d.runDir(), Detach: true, Inherit: locks,
	})
	if err != nil {
		return err
	}
	d.started = append(d.started, p)
	return nil
}
