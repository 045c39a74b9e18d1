package env

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/realmkeeper/realmkeeper/test/controlplane/filelock"
)

// runDir is the directory of one control plane. Its owner holds a lock on it. The kernel releases
// the lock when the process exits for any reason.
type runDir struct {
	path string
	lock filelock.Lock
}

// newRunDir creates a directory and removes those that killed test binaries left behind.
func newRunDir() (runDir, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return runDir{}, fmt.Errorf("create a directory for the control plane: %w", err)
	}
	parent := filepath.Join(cache, "realmkeeper", "tests")
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return runDir{}, fmt.Errorf("create a directory for the control plane: %w", err)
	}
	// Only one binary may do this at a time. Others would take a new directory for an abandoned one
	// until it is locked.
	turn, err := filelock.Wait(parent)
	if err != nil {
		return runDir{}, fmt.Errorf("create a directory for the control plane: %w", err)
	}
	defer turn.Release()

	left, err := filepath.Glob(filepath.Join(parent, "*"))
	if err != nil {
		return runDir{}, fmt.Errorf("list the directories of killed runs: %w", err)
	}
	for _, path := range left {
		if err := removeUnlessLocked(path); err != nil {
			return runDir{}, fmt.Errorf("remove the directory of a killed run: %w", err)
		}
	}

	path, err := os.MkdirTemp(parent, "")
	if err != nil {
		return runDir{}, fmt.Errorf("create a directory for the control plane: %w", err)
	}
	own, err := filelock.Try(path)
	if err != nil {
		return runDir{}, fmt.Errorf("lock the control plane's directory: %w", err)
	}
	return runDir{path: path, lock: own}, nil
}

func (d runDir) remove() error {
	if d.path == "" {
		return nil
	}
	defer d.lock.Release()
	return os.RemoveAll(d.path)
}

func removeUnlessLocked(path string) error {
	lock, err := filelock.Try(path)
	if errors.Is(err, filelock.ErrLocked) {
		return nil
	} else if err != nil {
		return err
	}
	defer lock.Release()
	return os.RemoveAll(path)
}
