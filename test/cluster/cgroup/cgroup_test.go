package cgroup_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/cluster/cgroup"
)

// The end-to-end tests freeze a Pod. If they are killed meanwhile, its control group can be removed.
func TestRemoveFrozen(t *testing.T) {
	hierarchies, err := cgroup.Here()
	if err != nil || len(hierarchies) == 0 {
		t.Fatalf("found the hierarchies %v, error %v", hierarchies, err)
	}
	process := exec.Command("sleep", "infinity")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	frozen := false
	var groups []string
	end := sync.OnceValue(func() error {
		err := process.Process.Kill()
		for _, group := range groups {
			err = errors.Join(err, cgroup.Thaw(group))
		}
		go func() { _ = process.Wait() }()
		for _, group := range groups {
			err = errors.Join(err, cgroup.Remove(group))
		}
		return err
	})
	t.Cleanup(func() { _ = end() })
	for _, hierarchy := range hierarchies {
		group := filepath.Join(hierarchy, "realmkeeper-test-"+strconv.Itoa(os.Getpid()))
		below := filepath.Join(group, "below")
		groups = append(groups, group)
		if err := os.MkdirAll(below, 0o755); err != nil {
			t.Fatal(err)
		}
		// A cpuset takes no process before it has processors.
		if err := write(below, "cgroup.procs", strconv.Itoa(process.Process.Pid)); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		for file, value := range map[string]string{"freezer.state": "FROZEN", "cgroup.freeze": "1"} {
			if err := write(below, file, value); err == nil {
				frozen = true
			} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				t.Fatal(err)
			}
		}
	}
	if !slices.ContainsFunc(groups, populated(t)) {
		t.Error("no group has a process")
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(groups, populated(t)) {
		t.Error("a removed group has a process")
	}
	if !frozen {
		t.Error("no hierarchy can freeze processes")
	}
}

func populated(t *testing.T) func(group string) bool {
	return func(group string) bool {
		populated, err := cgroup.Populated(group)
		if err != nil {
			t.Fatal(err)
		}
		return populated
	}
}

// write writes to an existing file.
func write(dir, name, content string) error {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	return errors.Join(err, file.Close())
}
