package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/commandtest"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

func TestMain(m *testing.M) { commandtest.Main(m, main) }

const good = `apiVersion: config.realmkeeper.dev/v1beta1
kind: InstanceConfiguration
instanceDomain: example.com
security: {defaultTokenLifetime: 5m}
`

// Invalid input must fail immediately, with one line that names the setting to change.
func TestInvalidInputFails(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		testkit.Do(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	goodFile := file("good.yaml", good)
	tests := map[string]struct {
		args []string
		want string
	}{
		"no flags":                  {nil, "--config"},
		"no such file":              {[]string{"--config", filepath.Join(dir, "none.yaml")}, "none.yaml"},
		"invalid value":             {[]string{"--config", file("value.yaml", strings.Replace(good, "5m", "5 minutes", 1))}, "security.defaultTokenLifetime"},
		"argument":                  {[]string{"--config", goodFile, "surplus"}, "surplus"},
		"invalid namespace":         {[]string{"--config", goodFile, "--namespace", "a\nb"}, "--namespace"},
		"invalid records namespace": {[]string{"--config", goodFile, "--records-namespace", "A"}, "--records-namespace"},
		"one namespace for both":    {[]string{"--config", goodFile, "--namespace", "a", "--records-namespace", "a"}, "--records-namespace"},
		"no API server":             {[]string{"--config", goodFile}, "--kubeconfig"},
		"no such kubeconfig":        {[]string{"--config", goodFile, "--kubeconfig", filepath.Join(dir, "none")}, "--kubeconfig"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := commandtest.Run(t, tc.args...)
			if code == 0 {
				t.Error("exit code 0, want an error")
			}
			if strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") || !strings.Contains(stderr, tc.want) {
				t.Errorf("stderr is %q, want one line that names %s", stderr, tc.want)
			}
		})
	}
}

func TestHelp(t *testing.T) { commandtest.Help(t, "--config FILE", "-leader-elect", "-kubeconfig") }

// The debug level must not include more verbose levels: client-go logs request and response bodies
// at some of them.
func TestLogLevel(t *testing.T) {
	for level, wantDebug := range map[config.LogLevel]bool{config.LogInfo: false, config.LogDebug: true} {
		logger := newLogger(level)
		if !logger.Enabled() || logger.V(1).Enabled() != wantDebug || logger.V(2).Enabled() {
			t.Errorf("level %s enables verbosity 0: %t, 1: %t, 2: %t, want true, %t, false", level, logger.Enabled(), logger.V(1).Enabled(), logger.V(2).Enabled(), wantDebug)
		}
	}
}

// The operator must trust the certificate authority of an issuer on the internet.
func TestTrustsPublicAuthoritiesWithoutSystemRoots(t *testing.T) { commandtest.PublicAuthorities(t) }
