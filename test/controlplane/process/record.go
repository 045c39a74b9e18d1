package process

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const recordSuffix = ".pid"

// record identifies a detached process. It contains the start time, because process IDs are
// reused.
type record struct {
	pid   int
	start string // as returned by startOf
}

// StopRecorded stops all detached processes that are recorded in dir, newest first. It sends
// SIGTERM, and SIGKILL after grace. If a recorded process has exited, or if another process
// now has its ID, StopRecorded only removes the record. It returns no error if dir doesn't
// exist.
func StopRecorded(dir string, grace time.Duration) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+recordSuffix))
	if err != nil {
		return fmt.Errorf("list the processes recorded in %s: %w", dir, err)
	}
	type recordFile struct {
		path    string
		written time.Time
	}
	var records []recordFile
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Another program has removed it since the listing.
		} else if err != nil {
			return fmt.Errorf("list the processes recorded in %s: %w", dir, err)
		}
		records = append(records, recordFile{path, info.ModTime()})
	}
	slices.SortFunc(records, func(a, b recordFile) int {
		return cmp.Or(b.written.Compare(a.written), cmp.Compare(a.path, b.path))
	})

	var errs []error
	for _, r := range records {
		errs = append(errs, stopRecorded(r.path, grace))
	}
	return errors.Join(errs...)
}

// StopNamed stops the detached process recorded in dir under the given name, like
// StopRecorded. It returns no error if there is none.
func StopNamed(dir, name string, grace time.Duration) error {
	return stopRecorded(filepath.Join(dir, name+recordSuffix), grace)
}

// Running reports whether the detached process recorded in dir under the given name is
// running.
func Running(dir, name string) bool {
	r, err := readRecord(filepath.Join(dir, name+recordSuffix))
	return err == nil && r.alive()
}

// RecordedPID returns the ID of the detached process recorded in dir under the given name.
// It returns os.ErrProcessDone if the process has exited.
func RecordedPID(dir, name string) (int, error) {
	path := filepath.Join(dir, name+recordSuffix)
	r, err := readRecord(path)
	if err != nil {
		return 0, err
	}
	if !r.alive() {
		return 0, fmt.Errorf("process %d of %s: %w", r.pid, path, os.ErrProcessDone)
	}
	return r.pid, nil
}

func stopRecorded(path string, grace time.Duration) error {
	r, err := readRecord(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	// Get the handle before checking the identity of the process, so that the signal can't reach a
	// different process that gets the same ID in between.
	handle, err := os.FindProcess(r.pid)
	if err != nil {
		return fmt.Errorf("stop the process of %s: %w", path, err)
	}
	defer handle.Release() //nolint:errcheck // It can't be handled.

	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, grace}, {syscall.SIGKILL, 10 * time.Second}} {
		if !r.alive() {
			break
		}
		if err := handle.Signal(step.signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop process %d of %s: %w", r.pid, path, err)
		}
		r.awaitExit(step.wait)
	}
	if r.alive() {
		return fmt.Errorf("stop process %d of %s: still running after SIGKILL", r.pid, path)
	}
	return removeIfExists(path)
}

// awaitExit returns when the process has exited or after the limit. It polls, because the process
// isn't a child of this process.
func (r record) awaitExit(limit time.Duration) {
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for r.alive() {
		select {
		case <-deadline:
			return
		case <-tick.C:
		}
	}
}

func (r record) alive() bool {
	start, err := startOf(r.pid)
	return err == nil && start == r.start
}

// readRecord reads a record of writeRecord: the process ID on the first line, so that users
// can read it, and the start on the second line.
func readRecord(path string) (record, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return record{}, fmt.Errorf("read the recorded process: %w", err)
	}
	id, start, _ := strings.Cut(strings.TrimSpace(string(content)), "\n")
	pid, err := strconv.Atoi(id)
	if err != nil || pid <= 1 || start == "" {
		return record{}, fmt.Errorf("%s is not a process record; remove it after its process has exited", path)
	}
	return record{pid: pid, start: start}, nil
}

func writeRecord(path string, pid int) error {
	start, err := startOf(pid)
	if err != nil {
		return fmt.Errorf("identify process %d: %w", pid, err)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n%s\n", pid, start), 0o600); err != nil {
		return fmt.Errorf("record process %d: %w", pid, err)
	}
	return nil
}

func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
