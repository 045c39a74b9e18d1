// Package confine runs a program within a limit of memory and on a core of its own, as a container
// would run it.
package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/cluster/cgroup"
)

// Group is a memory control group, version 1 or 2. It is removed at the end of the test.
type Group struct {
	// Limit is the limit of memory in bytes, including swap if the kernel counts it.
	Limit int64

	dir string // empty: control groups are not available
	v2  bool
}

// NewGroup returns a group with the given limit. If control groups are not available, as without
// root, the group sets only the limit of the Go runtime and measures the resident memory. CI runs
// as root, so there it must be available.
func NewGroup(t testing.TB, limit int64) *Group {
	t.Helper()
	g := &Group{Limit: limit}
	if err := g.create(); err != nil {
		t.Logf("NOT CONFINED: running with GOMEMLIMIT only, because a memory control group is not available: %v", err)
		g.dir = ""
	}
	t.Cleanup(func() {
		if g.dir == "" {
			return
		}
		if err := cgroup.Remove(g.dir); err != nil {
			t.Error(err)
		}
	})
	return g
}

var errNoController = errors.New("no hierarchy has the memory controller")

func (g *Group) create() error {
	hierarchies, err := cgroup.Here()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		if _, err := os.Stat(filepath.Join(hierarchy, "memory.use_hierarchy")); err == nil {
			return g.createIn(hierarchy)
		}
		controllers, err := os.ReadFile(filepath.Join(hierarchy, "cgroup.controllers"))
		if err == nil && strings.Contains(string(controllers), "memory") {
			g.v2 = true
			if err := os.WriteFile(filepath.Join(hierarchy, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
				return fmt.Errorf("enable the memory controller: %w", err)
			}
			return g.createIn(hierarchy)
		}
	}
	return errNoController
}

func (g *Group) createIn(hierarchy string) error {
	dir, err := makeDir(hierarchy, cgroup.Remove)
	if err != nil {
		return err
	}
	g.dir = dir
	if g.v2 {
		return errors.Join(g.write("memory.max", g.Limit), g.writeIfExists("memory.swap.max", 0), g.writeIfExists("memory.oom.group", 1))
	}
	return errors.Join(
		g.write("memory.limit_in_bytes", g.Limit), g.writeIfExists("memory.memsw.limit_in_bytes", g.Limit),
		// Version 1 counts the buffers of sockets separately, and only if they have a limit.
		g.writeIfExists("memory.kmem.tcp.limit_in_bytes", g.Limit),
	)
}

// Confined reports whether the kernel enforces the limit.
func (g *Group) Confined() bool { return g.dir != "" }

// Peak returns the most memory in bytes that the group has used since the last Reset, or that the
// process has used if there is no group. It includes kernel memory and files in memory.
func (g *Group) Peak(pid int) (int64, error) {
	switch {
	case !g.Confined():
		return residentPeak(pid)
	case g.v2:
		return g.read("memory.peak")
	}
	peak, err := g.read("memory.max_usage_in_bytes")
	if err != nil {
		return 0, err
	}
	sockets, err := g.read("memory.kmem.tcp.max_usage_in_bytes")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	return peak + sockets, nil
}

// Reset starts a new measurement of the peak. Version 2 cannot do that for all readers, so there
// the peak remains that of the whole life of the group.
func (g *Group) Reset() error {
	if !g.Confined() || g.v2 {
		return nil
	}
	return errors.Join(g.write("memory.max_usage_in_bytes", 0), g.writeIfExists("memory.kmem.tcp.max_usage_in_bytes", 0))
}

func (g *Group) write(file string, value int64) error {
	return os.WriteFile(filepath.Join(g.dir, file), strconv.AppendInt(nil, value, 10), 0)
}

func (g *Group) writeIfExists(file string, value int64) error {
	if _, err := os.Stat(filepath.Join(g.dir, file)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return g.write(file, value)
}

func (g *Group) read(file string) (int64, error) {
	content, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
}

// residentPeak returns the peak of the resident memory of a process (proc_pid_status(5)).
func residentPeak(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmHWM", pid)
}
