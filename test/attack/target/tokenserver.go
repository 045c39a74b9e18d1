package target

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// TokenServerLimit is the limit of memory of a token server in the chart.
const TokenServerLimit = 256 << 20

// StartTokenServer starts a token server that serves the records in a namespace, with additional
// flags, and waits until it has loaded them.
func StartTokenServer(t testing.TB, cluster *env.Env, records string, flags ...string) *Server {
	t.Helper()
	return start(t, cluster, "token-server", TokenServerLimit, append([]string{
		"--namespace", records, "--name", "attacked", "--kubeconfig", cluster.Kubeconfig, "--snapshot-dir", memoryDir(t),
	}, flags...)...)
}

// memoryDir returns a directory in memory. As in the chart, its content counts as memory of the
// program that writes it. It is removed at the end of the test.
func memoryDir(t testing.TB) string {
	t.Helper()
	const shared = "/dev/shm"
	var stat unix.Statfs_t
	if err := unix.Statfs(shared, &stat); err != nil || stat.Type != unix.TMPFS_MAGIC {
		t.Fatalf("%s is not a tmpfs, which the snapshot needs: %v", shared, err)
	}
	dir, err := os.MkdirTemp(shared, "realmkeeper-attack-")
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
