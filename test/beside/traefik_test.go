package beside_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

var errNotReady = errors.New("not ready")

// traefik runs with the command on the page, but without TLS.
func traefik(t *testing.T, s setup) instance {
	call, api := httpCalls(t, s.address, "X-Auth-Client-Id")
	s.write(t, "orders.yaml", strings.ReplaceAll(s.fill(s.block(t, "yaml"),
		"Host(`orders.acme.example`)", "Host(`127.0.0.1`)", "orders.internal:8080", api), "      tls: {}\n", ""))
	command := strings.Fields(s.fill(s.block(t, "sh"), "address=:443", "address="+s.address, "/etc/traefik/orders.yaml", filepath.Join(s.dir, "orders.yaml"), "\\\n", ""))
	s.start(t, process.Command{Name: "traefik", Path: built(command[0]), Args: append(command[1:], "--global.checkNewVersion=false")}, func() error {
		response, err := http.Get("http://" + s.address)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode == http.StatusNotFound { // It listens before it has read the file.
			return fmt.Errorf("%w: %s", errNotReady, response.Status)
		}
		return nil
	})
	return instance{call: call}
}
