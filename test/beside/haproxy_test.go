package beside_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

func haproxy(t *testing.T, s setup) instance {
	call, api := httpCalls(t, s.address, "X-Auth-Client-Id")
	if err := os.Mkdir(filepath.Join(s.dir, "realm"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.write(t, "haproxy-keys", s.block(t, "python"))
	config := s.write(t, "haproxy.cfg", haproxyDefaults+s.fill(s.block(t, "text"),
		":443 ssl crt /etc/haproxy/orders.pem", s.address, "/etc/haproxy/", s.dir+"/", "orders.internal:8080", api))
	reload := s.fill(s.block(t, "sh"), "/usr/local/bin/haproxy-keys", "/usr/bin/python3 "+filepath.Join(s.dir, "haproxy-keys"), "/etc/haproxy/", s.dir+"/")
	load, _, _ := strings.Cut(reload, " &&")
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", load).CombinedOutput(); err != nil {
		t.Logf("%s: %v\n%s", load, err, out)
	}
	running := s.start(t, process.Command{Name: "haproxy", Path: "/usr/sbin/haproxy", Args: []string{"-W", "-f", config}}, reachable(s.address))
	reload = strings.Replace(reload, "systemctl reload haproxy", "kill -USR2 "+strconv.Itoa(running.PID()), 1)
	return instance{call: call, refresh: func() error {
		err := exec.CommandContext(t.Context(), "sh", "-c", reload).Run()
		time.Sleep(2 * time.Second) // The new process takes over.
		return err
	}}
}

const haproxyDefaults = `global
  log stderr format raw local0
defaults
  log global
  timeout connect 5s
  timeout client 1m
  timeout server 1m
`
