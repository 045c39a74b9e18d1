package confine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// prefix starts the names of control groups and directories. The process ID follows.
const prefix = "realmkeeper-attack-"

// makeDir creates a directory that belongs to this process. First it calls remove for each that
// belongs to a process that was killed before it could remove it.
func makeDir(parent string, remove func(dir string) error) (string, error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		rest, ours := strings.CutPrefix(entry.Name(), prefix)
		pid, _, _ := strings.Cut(rest, "-")
		if _, err := os.Stat("/proc/" + pid); !ours || err == nil {
			continue
		}
		if err := remove(filepath.Join(parent, entry.Name())); err != nil {
			return "", err
		}
	}
	return os.MkdirTemp(parent, fmt.Sprintf("%s%d-", prefix, os.Getpid()))
}

// MemoryDir returns a directory in memory. As in a Pod, its content counts as memory of the program
// that writes it. It is removed at the end of the test.
func MemoryDir(t testing.TB) string {
	t.Helper()
	const shared = "/dev/shm"
	var stat unix.Statfs_t
	if err := unix.Statfs(shared, &stat); err != nil || stat.Type != unix.TMPFS_MAGIC {
		t.Fatalf("%s must be a tmpfs: %v", shared, err)
	}
	dir, err := makeDir(shared, os.RemoveAll)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
