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

// record identifies a detached process. A process id alone is given out again after
// the process has ended, so the instant of its start goes with it.
type record struct {
	pid   int
	start string // as startOf tells it
}

// StopRecorded stops every detached process on record in dir, the youngest first:
// each is asked to end, and killed if it hasn't within grace. A record whose process
// has gone, or whose id belongs to another process by now, is only removed. It is no
// error that dir doesn't exist.
func StopRecorded(dir string, grace time.Duration) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+recordSuffix))
	if err != nil {
		return fmt.Errorf("list the processes on record in %s: %w", dir, err)
	}
	type aged struct {
		path    string
		written time.Time
	}
	var records []aged
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // It ended between the listing and now.
		} else if err != nil {
			return fmt.Errorf("list the processes on record in %s: %w", dir, err)
		}
		records = append(records, aged{path, info.ModTime()})
	}
	slices.SortFunc(records, func(a, b aged) int {
		return cmp.Or(b.written.Compare(a.written), cmp.Compare(a.path, b.path))
	})

	var errs []error
	for _, r := range records {
		errs = append(errs, stopRecorded(r.path, grace))
	}
	return errors.Join(errs...)
}

// StopNamed stops the detached process of this name on record in dir as StopRecorded
// does. It is no error that there is none.
func StopNamed(dir, name string, grace time.Duration) error {
	return stopRecorded(filepath.Join(dir, name+recordSuffix), grace)
}

// Running tells whether the detached process of this name on record in dir is alive.
func Running(dir, name string) bool {
	r, err := readRecord(filepath.Join(dir, name+recordSuffix))
	return err == nil && r.alive()
}

// RecordedPID is the id of the detached process of this name on record in dir. It fails
// with os.ErrProcessDone when that has ended.
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
	// The handle is taken before the process is identified, so that the signal
	// can't reach another one that gets the same id in between.
	handle, err := os.FindProcess(r.pid)
	if err != nil {
		return fmt.Errorf("stop the process of %s: %w", path, err)
	}
	defer handle.Release() //nolint:errcheck // There is nothing to do about it.

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
		r.awaitEnd(step.wait)
	}
	if r.alive() {
		return fmt.Errorf("stop process %d of %s: it outlived SIGKILL", r.pid, path)
	}
	return removeIfExists(path)
}

// awaitEnd returns when the process has ended or the time is over. It isn't our
// child, so there is nothing but looking.
func (r record) awaitEnd(limit time.Duration) {
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

// readRecord reads what writeRecord wrote: the process id on the first line, so that
// a person can use it, and the start on the second.
func readRecord(path string) (record, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return record{}, fmt.Errorf("read the process on record: %w", err)
	}
	id, start, _ := strings.Cut(strings.TrimSpace(string(content)), "\n")
	pid, err := strconv.Atoi(id)
	if err != nil || pid <= 1 || start == "" {
		return record{}, fmt.Errorf("%s is no record of a process; remove it once nothing of it runs", path)
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
