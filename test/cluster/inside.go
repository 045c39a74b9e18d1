package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/realmkeeper/realmkeeper/test/cluster/enclosure"
	"github.com/realmkeeper/realmkeeper/test/cluster/node"
)

// Commands of this program that it runs in the enclosure.
const (
	inside         = "inside"
	serve          = "serve" // as the first process
	start          = "start"
	missing        = "missing"
	stopAPIServer  = "stop-apiserver"
	startAPIServer = "start-apiserver"
)

func runInside(ctx context.Context, args []string) error {
	switch {
	case len(args) == 3 && args[0] == serve:
		return enclosure.Serve(args[1], args[2])
	case len(args) != 1:
		return errUsage
	}
	switch args[0] {
	case start:
		return node.Start(ctx, func(step string) { fmt.Println(step) })
	case missing:
		fmt.Println(strings.Join(node.Missing(), " "))
		return nil
	case stopAPIServer:
		return node.StopAPIServer()
	case startAPIServer:
		return node.StartAPIServer(ctx)
	default:
		return errUsage
	}
}

// executable returns the path of a copy of this program, which exists as long as the cluster does.
// The original can be a temporary file of go run.
func (c *cluster) executable() string { return c.file(filepath.Join("bin", "cluster")) }

// insideCommand returns the command that runs a command of this program in the enclosure.
func (c *cluster) insideCommand(ctx context.Context, command string) (*exec.Cmd, error) {
	return c.enclosure.Command(ctx, filepath.Join(enclosure.Dir, "bin", "cluster"), inside, command)
}

func (c *cluster) inside(ctx context.Context, command string) error {
	if err := c.requireRunning(); err != nil {
		return err
	}
	cmd, err := c.insideCommand(ctx, command)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// startNode runs node.Start in the enclosure and prints its steps.
func (c *cluster) startNode(ctx context.Context) error {
	cmd, err := c.insideCommand(ctx, start)
	if err != nil {
		return err
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	steps, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(steps); lines.Scan(); {
		c.Step("%s", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("start the node: %w\n%s", err, strings.TrimSpace(stderr.String()))
	}
	return nil
}

// exec runs one of this machine's programs in the enclosure, with standard input and output.
func (c *cluster) exec(ctx context.Context, args []string) error {
	if err := c.requireRunning(); err != nil {
		return err
	}
	cmd, err := c.enclosure.Command(ctx, args[0], args[1:]...)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// load imports image archives into the node.
func (c *cluster) load(ctx context.Context, archives []string) error {
	if err := c.requireRunning(); err != nil {
		return err
	}
	for _, archive := range archives {
		if err := c.loadArchive(ctx, archive); err != nil {
			return fmt.Errorf("import %s: %w", archive, err)
		}
	}
	return nil
}

// loadArchive passes the content of the file, because the path can differ in the enclosure.
func (c *cluster) loadArchive(ctx context.Context, path string) error {
	archive, err := os.Open(path)
	if err != nil {
		return err
	}
	defer archive.Close()
	cmd, err := c.enclosure.Command(ctx, "ctr", "--namespace", "k8s.io", "images", "import", "-")
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = archive, os.Stdout, os.Stderr
	return cmd.Run()
}
