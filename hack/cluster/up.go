package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/realmkeeper/realmkeeper/hack/cluster/node"
	"github.com/realmkeeper/realmkeeper/hack/controlplane"

	"github.com/realmkeeper/realmkeeper/hack/cluster/enclosure"
)

const next = `
The cluster runs. For kubectl, the Kubernetes version of which is in %[2]s:
  export KUBECONFIG=%[1]s
Images for its pods, which it pulls from nowhere:
  go run ./hack/cluster load dist/realmkeeper-linux-%[3]s.tar
Its end:
  make cluster-down
`

// up brings the cluster up from whatever state it is in.
func (c *cluster) up(ctx context.Context) (err error) {
	if err := requireRoot(); err != nil {
		return err
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if running, err := c.takeStock(ctx); running || err != nil {
		return err
	}
	claim, err := c.claim()
	if err != nil {
		return errors.Join(err, os.Remove(c.dir))
	}
	defer claim.Release()
	defer func() {
		if err != nil {
			err = c.undo(ctx, err)
		}
	}()

	if err := c.requireMachine(); err != nil {
		return err
	}
	if err := c.installPackages(ctx); err != nil {
		return err
	}
	binDir, err := controlplane.BinDir(ctx, os.Stderr, node.Binaries()...)
	if err != nil {
		return err
	}
	if err := c.buildPauseImage(ctx); err != nil {
		return err
	}
	c.Step("Making an enclosure for the node ...")
	program, err := c.copyItself()
	if err != nil {
		return err
	}
	err = c.enclosure.Start(ctx, enclosure.Options{
		Program: []string{program, inside, serve}, BinDir: binDir, Lock: claim.File(),
	})
	if err != nil {
		return err
	}
	if err := c.connect(ctx); err != nil {
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
	c.Step("Node %s is Ready.", node.Name)
	c.Say(next, c.kubeconfig(), binDir, runtime.GOARCH)
	return nil
}

// takeStock looks at what an earlier run has left, and removes it unless it is a cluster
// that runs.
func (c *cluster) takeStock(ctx context.Context) (running bool, err error) {
	if c.requireRunning() == nil {
		return true, c.checkRunning(ctx)
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil || len(entries) == 0 {
		return false, err
	}
	c.Step("Removing what an earlier start has left ...")
	return false, c.remove()
}

// checkRunning tells whether the cluster works, and starts the API server again if that
// was stopped.
func (c *cluster) checkRunning(ctx context.Context) error {
	cmd, err := c.insideCommand(ctx, missing)
	if err != nil {
		return err
	}
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	switch names := strings.TrimSpace(string(out)); names {
	case "":
		c.Say("The cluster is running already.\nexport KUBECONFIG=%s", c.kubeconfig())
		return nil
	case "kube-apiserver":
		c.Say("The cluster is running, but for its API server, which is started again.\nexport KUBECONFIG=%s", c.kubeconfig())
		return c.inside(ctx, startAPIServer)
	default:
		return fmt.Errorf("the cluster is damaged: %s ended, of which %s tells; make cluster-down removes it",
			names, c.file("run/*.log"))
	}
}

// undo removes what this run has made. What the programs said is told by the error.
func (c *cluster) undo(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		cause = errInterrupted
	}
	return errors.Join(cause, c.remove(), errors.New("what this run had made is removed"))
}

// copyItself keeps this program for what is run inside.
func (c *cluster) copyItself() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(self)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(c.itself()), 0o700); err != nil {
		return "", err
	}
	return c.itself(), os.WriteFile(c.itself(), content, 0o700)
}

// buildPauseImage makes the image of the first process of every pod.
func (c *cluster) buildPauseImage(ctx context.Context) error {
	c.Step("Building the pause image; about 20 s the first time ...")
	dir := c.file("images")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	binary := filepath.Join(dir, "pause")
	err := c.command(ctx, "env", "CGO_ENABLED=0", "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, "./hack/cluster/pause")
	if err != nil {
		return err
	}
	return c.command(ctx, "go", "run", "-C", "hack/image", ".", "archive",
		"--image", node.PauseImage, "--output", binary+".tar", binary)
}
