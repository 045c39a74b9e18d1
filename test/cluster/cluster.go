package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/realmkeeper/realmkeeper/test/cluster/enclosure"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/filelock"
	"github.com/realmkeeper/realmkeeper/test/progress"
)

var errInterrupted = errors.New("it was interrupted")

// cluster is the one in a directory, running or not.
type cluster struct {
	root      string // of the repository
	dir       string // absolute, and without symbolic links
	enclosure enclosure.Enclosure
	*progress.Progress
}

func newCluster(dir string, out io.Writer) (*cluster, error) {
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	if dir == "" {
		dir = filepath.Join(root, ".cluster")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	dir = filepath.Join(parent, filepath.Base(dir))
	return &cluster{
		root: root, dir: dir, enclosure: enclosure.Enclosure{Dir: dir}, Progress: progress.New(out),
	}, nil
}

func (c *cluster) file(name string) string { return filepath.Join(c.dir, name) }

// kubeconfig is the administrator's. It is written last: with it, the cluster is whole.
func (c *cluster) kubeconfig() string { return c.file("kubeconfig") }

func (c *cluster) requireRunning() error {
	if _, err := os.Stat(c.kubeconfig()); err != nil || !c.enclosure.Running() {
		return fmt.Errorf("no cluster runs in %s; make cluster-up starts one", c.dir)
	}
	return nil
}

// lock keeps other runs of up and down away from the directory.
func (c *cluster) lock() (unlock func(), err error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := filelock.Try(c.dir)
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("another make cluster-up or cluster-down is at work in %s; wait for its end, or end it with Ctrl-C", c.dir)
	}
	return lock.Release, err
}

// claim makes this the only cluster of the machine: two would have the same addresses. It
// holds until nobody holds the lock open any more.
func (c *cluster) claim() (filelock.Lock, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return filelock.Lock{}, err
	}
	path := filepath.Join(cache, "realmkeeper", "cluster")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return filelock.Lock{}, err
	}
	lock, err := filelock.Try(path)
	if errors.Is(err, filelock.ErrLocked) {
		other, _ := os.ReadFile(path) // Without it the message is less helpful, no more.
		return lock, fmt.Errorf("one runs in %s, and there can be no other; make cluster-down in that checkout stops it",
			strings.TrimSpace(string(other)))
	} else if err != nil {
		return lock, err
	}
	return lock, os.WriteFile(path, []byte(c.dir+"\n"), 0o600)
}

// command runs a program of this machine, from the root of the repository.
func (c *cluster) command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
