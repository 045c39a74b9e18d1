package cluster_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/plugintest"
)

// kubectl's flags that select a user have the same effect.
func TestUserFlags(t *testing.T) {
	sent := http.Header{}
	flag := plugintest.APIServer(t, func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.Header {
			if strings.HasPrefix(name, "Impersonate") {
				sent[name] = values
			}
		}
		w.WriteHeader(http.StatusForbidden)
	})
	code, _, stderr := plugintest.Run(t, "status", flag, "--as=alice", "--as-uid=1", "--as-group=a", "--as-group=b", "--as-user-extra=team=x", "--as-user-extra=team=y=z")
	testkit.Diff(t, "header", http.Header{
		"Impersonate-User": {"alice"}, "Impersonate-Uid": {"1"}, "Impersonate-Group": {"a", "b"}, "Impersonate-Extra-Team": {"x", "y=z"},
	}, sent)
	if code != 1 || !strings.Contains(stderr, "listing Realms") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	code, _, stderr = plugintest.Run(t, "status", flag, "--as-user-extra=team")
	if want := "kubectl realmkeeper: invalid argument \"team\" for \"--as-user-extra\" flag: must be key=value\n"; code != 1 || stderr != want {
		t.Errorf("exit code %d, %q; want 1 and %q", code, stderr, want)
	}
}

// The verbs that access a cluster have kubectl's connection flags.
func TestConnectionFlags(t *testing.T) {
	for _, verb := range []string{"backup", "explain", "report", "restore", "rotate", "status", "token"} {
		_, help, _ := plugintest.Run(t, verb, "--help")
		for _, flag := range []string{
			"as", "as-group", "as-uid", "as-user-extra", "certificate-authority", "client-certificate", "client-key", "cluster", "context", "disable-compression",
			"insecure-skip-tls-verify", "kubeconfig", "namespace", "proxy-url", "request-timeout", "server", "tls-server-name", "token", "user",
		} {
			if !strings.Contains(help, " --"+flag+" ") {
				t.Errorf("%s has no flag --%s", verb, flag)
			}
		}
	}
}
