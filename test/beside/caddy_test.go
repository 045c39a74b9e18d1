package beside_test

import (
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

func caddy(t *testing.T, s setup) instance {
	call, api := httpCalls(t, s.address, "X-Auth-Client-Id")
	host, realm, _ := strings.Cut(strings.TrimPrefix(s.issuer, "https://"), "/")
	config := s.write(t, "Caddyfile", "{\n\tadmin off\n\tauto_https off\n}\n"+s.fill(s.block(t, "caddy"),
		"orders.acme.example {", "http://"+s.address+" {", "api.example.com {", host+" {", "/acme/oauth2/verify", "/"+realm+"/oauth2/verify",
		"orders.internal:8080", api))
	s.start(t, process.Command{
		Name: "caddy", Path: built("caddy"), Args: []string{"run", "--config", config, "--adapter", "caddyfile"},
		Env: []string{"XDG_DATA_HOME=" + s.dir, "XDG_CONFIG_HOME=" + s.dir},
	}, reachable(s.address))
	return instance{call: call}
}
