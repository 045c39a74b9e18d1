package main

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// podsGroup is the control group that kubelets make for their pods.
const podsGroup = "kubepods"

// podGroups returns the control groups of pods that there are, one of each hierarchy.
func podGroups() ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var groups []string
	for _, mount := range cgroupMounts(file) {
		group := filepath.Join(mount, podsGroup)
		if _, err := os.Stat(group); err == nil {
			groups = append(groups, group)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return groups, nil
}

// cgroupMounts returns where hierarchies of control groups, of either version, are
// mounted, from the content of /proc/self/mountinfo.
func cgroupMounts(mountinfo io.Reader) []string {
	var mounts []string
	for lines := bufio.NewScanner(mountinfo); lines.Scan(); {
		mount, filesystem, found := strings.Cut(lines.Text(), " - ")
		fields, kind := strings.Fields(mount), strings.Fields(filesystem)
		if !found || len(fields) < 5 || len(kind) < 1 {
			continue
		}
		if kind[0] == "cgroup" || kind[0] == "cgroup2" {
			mounts = append(mounts, fields[4])
		}
	}
	return mounts
}

// removeCgroups removes the control groups of pods. Those of processes that have just
// ended may be busy for a moment.
func removeCgroups() error {
	groups, err := podGroups()
	if err != nil {
		return err
	}
	for _, group := range groups {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			err := removeCgroup(group)
			if err == nil {
				break
			}
			if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
				return err
			}
		}
	}
	return nil
}

// removeCgroup removes a control group and those in it. The files that it holds vanish
// with it.
func removeCgroup(group string) error {
	entries, err := os.ReadDir(group)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if err := removeCgroup(filepath.Join(group, entry.Name())); err != nil {
			return err
		}
	}
	if err := syscall.Rmdir(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "rmdir", Path: group, Err: err}
	}
	return nil
}
