package target

import (
	"crypto/rand"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// PortalLimit is the limit of memory of the attacked portal. The chart grants twice as much.
const PortalLimit = 128 << 20

// StartPortal starts a portal with additional flags and waits until it is ready.
func StartPortal(t testing.TB, cluster *env.Env, flags ...string) *Server {
	t.Helper()
	dir := t.TempDir()
	return start(t, cluster, "portal", PortalLimit, append([]string{
		"--api-server", cluster.Config.Host, "--api-server-ca-file", writeFile(t, dir, "ca.crt", cluster.Config.CAData),
		"--session-key-file", writeFile(t, dir, "session-key", []byte(rand.Text()+rand.Text())),
	}, flags...)...)
}
