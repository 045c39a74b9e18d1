package target

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/attack/confine"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// TokenServerLimit is the limit of memory of a token server in the chart.
const TokenServerLimit = 256 << 20

// StartTokenServer starts a token server that serves the records in a namespace, with additional
// flags, and waits until it has loaded them.
func StartTokenServer(t testing.TB, cluster *env.Env, records string, flags ...string) *Server {
	t.Helper()
	return start(t, cluster, "token-server", TokenServerLimit, append([]string{
		"--namespace", records, "--name", "attacked", "--kubeconfig", cluster.Kubeconfig, "--snapshot-dir", confine.MemoryDir(t),
	}, flags...)...)
}
