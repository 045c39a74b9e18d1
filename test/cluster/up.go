package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/realmkeeper/realmkeeper/test/cluster/enclosure"
	"github.com/realmkeeper/realmkeeper/test/cluster/node"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

const next = `
To use the cluster, with your kubectl or with %[2]s:
  export KUBECONFIG='%[1]s'
To import images, because the cluster does not pull any:
  make image
  go run -C test ./cluster load "$PWD/dist/realmkeeper-linux-%[3]s.tar"
To remove the cluster:
  make cluster-down
`

// up starts the cluster, regardless of the state left by an earlier run.
func (c *cluster) up(ctx context.Context) error {
	if err := requireRoot(); err != nil {
		return err
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if c.requireRunning() == nil {
		return c.repair(ctx)
	}
	if err := c.removeLeftovers(ctx); err != nil {
		return err
	}
	claim, err := c.claim()
	if err != nil {
		return errors.Join(err, os.Remove(c.dir))
	}
	defer claim.Release()
	if err := requireMachine(); err != nil {
		return errors.Join(err, os.Remove(c.dir))
	}
	if err := c.create(ctx, claim.File()); err != nil {
		if ctx.Err() != nil {
			err = errInterrupted
		}
		return errors.Join(err, c.remove(context.WithoutCancel(ctx)), os.Remove(c.dir),
			errors.New("everything that this run created was removed"))
	}
	return nil
}

// repair restarts the API server of a running cluster if it was stopped. No other component
// can be stopped on its own.
func (c *cluster) repair(ctx context.Context) error {
	cmd, err := c.insideCommand(ctx, missing)
	if err != nil {
		return err
	}
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	switch exited := strings.TrimSpace(string(out)); exited {
	case "":
		c.Say("The cluster is already running.\n  export KUBECONFIG='%s'", c.kubeconfig())
		return nil
	case node.APIServer:
		c.Say("The cluster is already running, except the API server.")
		c.Step("Restarting the API server ...")
		return c.inside(ctx, startAPIServer)
	default:
		return fmt.Errorf("the cluster is running, except %s; see %s for the cause, and remove the cluster with make cluster-down",
			exited, c.file("run/*.log"))
	}
}

// removeLeftovers removes everything left by a failed start.
func (c *cluster) removeLeftovers(ctx context.Context) error {
	entries, err := os.ReadDir(c.dir)
	if err != nil || len(entries) == 0 {
		return err
	}
	c.Step("Removing the leftovers of an earlier start ...")
	return c.remove(ctx)
}

// create creates the cluster. The node inherits the lock and holds it while it runs.
func (c *cluster) create(ctx context.Context, lock *os.File) error {
	if err := c.installPackages(ctx); err != nil {
		return err
	}
	binDir, err := controlplane.BinDir(ctx, os.Stderr, append(node.Binaries(), "kubectl")...)
	if err != nil {
		return err
	}
	if err := c.buildPauseImage(ctx); err != nil {
		return err
	}
	if err := c.startEnclosure(ctx, binDir, lock); err != nil {
		return err
	}
	if err := c.startNode(ctx); err != nil {
		return err
	}
	content, err := os.ReadFile(c.file("run/kubeconfig"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.kubeconfig(), content, 0o600); err != nil {
		return err
	}
	c.Step("The cluster is running and its node is Ready.")
	c.Say(next, c.kubeconfig(), filepath.Join(binDir, "kubectl"), runtime.GOARCH)
	return nil
}

// buildPauseImage builds the image of the first process of every Pod.
func (c *cluster) buildPauseImage(ctx context.Context) error {
	c.Step("Building the pause image; about 20 s the first time ...")
	if err := os.MkdirAll(c.file("images"), 0o700); err != nil {
		return err
	}
	binary := c.file("images/pause")
	err := c.command(ctx, "env", "CGO_ENABLED=0",
		"go", "build", "-C", "test", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, "./cluster/pause")
	if err != nil {
		return err
	}
	return c.command(ctx, "env", "CGO_ENABLED=0",
		"go", "run", "-C", "hack/image", ".", "archive", "--image", node.PauseImage, "--output", binary+".tar", binary)
}

// startEnclosure starts the enclosure of the node and connects it to this machine.
func (c *cluster) startEnclosure(ctx context.Context, binDir string, lock *os.File) error {
	c.Step("Creating namespaces for the node ...")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.executable()), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(c.executable(), content, 0o700); err != nil {
		return err
	}
	err = c.enclosure.Start(ctx, enclosure.Options{
		Program: []string{c.executable(), inside, serve}, BinDir: binDir, Lock: lock,
	})
	if err != nil {
		return err
	}
	return c.connect(ctx)
}
