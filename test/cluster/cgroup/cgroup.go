// Package cgroup finds and removes control groups, version 1 or 2, by name in all hierarchies.
package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// removeTimeout is how long a group may stay busy after its last process has exited.
const removeTimeout = 10 * time.Second

// Here returns the mount points of control groups on this machine.
func Here() ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return Hierarchies(file)
}

// Hierarchies returns the mount points of control groups from a file in the format of
// proc_pid_mountinfo(5). The mount point is the fifth field. The type of the file system is the
// first field after a single hyphen.
func Hierarchies(mountinfo io.Reader) ([]string, error) {
	var hierarchies []string
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		mount, filesystem, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(mount)
		kind, _, _ := strings.Cut(filesystem, " ")
		if len(fields) >= 5 && (kind == "cgroup" || kind == "cgroup2") {
			hierarchies = append(hierarchies, fields[4])
		}
	}
	return hierarchies, lines.Err()
}

// Find returns the group's directory in each hierarchy that contains it.
func Find(hierarchies []string, group string) ([]string, error) {
	var found []string
	for _, hierarchy := range hierarchies {
		dir := filepath.Join(hierarchy, group)
		if _, err := os.Stat(dir); err == nil {
			found = append(found, dir)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return found, nil
}

// Thaw thaws the processes of a group and of the groups in it, so that killed processes exit. Only version 1
// needs it. In version 2, killed processes exit although they are frozen.
func Thaw(dir string) error {
	return eachFile(dir, "freezer.state", func(root *os.Root, path string) error {
		return root.WriteFile(path, []byte("THAWED"), 0)
	})
}

// Populated reports whether a group or a group in it has processes.
func Populated(dir string) (bool, error) {
	populated := false
	err := eachFile(dir, "cgroup.procs", func(root *os.Root, path string) error {
		processes, err := root.ReadFile(path)
		populated = populated || len(processes) > 0
		return err
	})
	return populated, err
}

// eachFile calls a function with each file of that name in a group and in the groups in it. It ignores
// groups that are removed meanwhile.
func eachFile(dir, name string, do func(root *os.Root, path string) error) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == name {
			err = do(root, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// Remove removes the directory of a group and of the groups in it. Their processes must have
// exited. Remove returns no error if the directory doesn't exist.
func Remove(dir string) error {
	for deadline := time.Now().Add(removeTimeout); ; time.Sleep(50 * time.Millisecond) {
		err := remove(dir)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			return fmt.Errorf("remove the control group %s: %w", dir, err)
		}
	}
}

// remove removes only directories, because files of control groups can't be removed and
// disappear with their directory.
func remove(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if err := remove(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	if err := syscall.Rmdir(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
