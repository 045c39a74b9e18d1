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
To use it, with kubectl or with the one that was built, %[2]s:
  export KUBECONFIG='%[1]s'
To give it images, for it pulls none:
  make image
  go run -C test ./cluster load "$PWD/dist/realmkeeper-linux-%[3]s.tar"
To remove it:
  make cluster-down
`

// up brings the cluster up from whatever state it is in.
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
		return c.mend(ctx)
	}
	if err := c.removeRest(ctx); err != nil {
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
			errors.New("what this run had made is removed"))
	}
	return nil
}

// mend starts the API server of a running cluster again when that was stopped. Nothing
// else is ever stopped by itself.
func (c *cluster) mend(ctx context.Context) error {
	cmd, err := c.insideCommand(ctx, missing)
	if err != nil {
		return err
	}
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	switch ended := strings.TrimSpace(string(out)); ended {
	case "":
		c.Say("The cluster is running already.\n  export KUBECONFIG='%s'", c.kubeconfig())
		return nil
	case node.APIServer:
		c.Say("The cluster is running already, but for its API server.")
		c.Step("Starting the API server again ...")
		return c.inside(ctx, startAPIServer)
	default:
		return fmt.Errorf("it runs, but for %s, which ended; %s may tell why; make cluster-down removes it",
			ended, c.file("run/*.log"))
	}
}

// removeRest removes what an earlier start has left that came to no good end.
func (c *cluster) removeRest(ctx context.Context) error {
	entries, err := os.ReadDir(c.dir)
	if err != nil || len(entries) == 0 {
		return err
	}
	c.Step("Removing what an earlier start has left ...")
	return c.remove(ctx)
}

// create makes the cluster. The lock is held open by the node as long as it runs.
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
	c.Step("The cluster runs, and its node is Ready.")
	c.Say(next, c.kubeconfig(), filepath.Join(binDir, "kubectl"), runtime.GOARCH)
	return nil
}

// buildPauseImage makes the image of the first process of every pod.
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

// startEnclosure gives the node a place, with a link to this machine.
func (c *cluster) startEnclosure(ctx context.Context, binDir string, lock *os.File) error {
	c.Step("Making namespaces for the node ...")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.itself()), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(c.itself(), content, 0o700); err != nil {
		return err
	}
	err = c.enclosure.Start(ctx, enclosure.Options{
		Program: []string{c.itself(), inside, serve}, BinDir: binDir, Lock: lock,
	})
	if err != nil {
		return err
	}
	return c.connect(ctx)
}
