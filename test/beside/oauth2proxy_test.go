package beside_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// oauth2Proxy passes the client ID as the user's email.
func oauth2Proxy(t *testing.T, s setup) instance {
	call, api := httpCalls(t, s.address, "X-Forwarded-Email")
	config := s.write(t, "oauth2-proxy.cfg", s.fill(s.block(t, "toml"), "0.0.0.0:4180", s.address, "orders.internal:8080", api))
	s.start(t, process.Command{Name: "oauth2-proxy", Path: built("oauth2-proxy"), Args: []string{"--config", config}}, reachable(s.address))
	return instance{call: call}
}
