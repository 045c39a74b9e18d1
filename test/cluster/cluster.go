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

var errInterrupted = errors.New("interrupted")

// cluster is a cluster in a directory. It may or may not be running.
type cluster struct {
	root      string // the repository
	dir       string // absolute, without symbolic links
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

// kubeconfig returns the path of the administrator's kubeconfig. It is written last, so it
// exists only if the cluster is complete.
func (c *cluster) kubeconfig() string { return c.file("kubeconfig") }

func (c *cluster) requireRunning() error {
	if _, err := os.Stat(c.kubeconfig()); err != nil || !c.enclosure.Running() {
		return fmt.Errorf("no cluster is running in %s; start one with make cluster-up", c.dir)
	}
	return nil
}

// lock prevents concurrent runs of up and down on the directory.
func (c *cluster) lock() (unlock func(), err error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := filelock.Try(c.dir)
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("another make cluster-up or cluster-down is using %s; wait until it finishes, or stop it with Ctrl-C", c.dir)
	}
	return lock.Release, err
}

// claim takes the lock that allows only one cluster on this machine, because two clusters would
// have the same addresses. The claim lasts until all holders of the lock have closed it.
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
		other, _ := os.ReadFile(path) // The content only makes the message more helpful.
		return lock, fmt.Errorf("a cluster is running in %s, and only one can run at a time; stop it with make cluster-down in that checkout",
			strings.TrimSpace(string(other)))
	} else if err != nil {
		return lock, err
	}
	return lock, os.WriteFile(path, []byte(c.dir+"\n"), 0o600)
}

// command runs a program on this machine in the root of the repository.
func (c *cluster) command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
