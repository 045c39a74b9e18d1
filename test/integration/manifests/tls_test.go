package manifests_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// copyCommand matches the command in docs/tls.md that copies the CAs to trust-manager's namespace.
var copyCommand = regexp.MustCompile(`(?m)^\$ (kubectl get configmap (?:.*(?:&&|\|)\n)*.*)$`)

// TestCopyForTrustManager runs the command in docs/tls.md that gives trust-manager the CAs.
// trust-manager can read all Secrets of its namespace, so its namespace must not be the system
// namespace, which contains the private key of the CA.
func TestCopyForTrustManager(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "tls.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := copyCommand.FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/tls.md doesn't copy the ConfigMap to another namespace")
	}
	cluster := env.Start(t)
	for _, namespace := range []string{"realmkeeper-system", "cert-manager"} {
		cluster.Kubectl(t, "apply", "-f", writeNamespace(t, namespace))
	}
	const cas = "-----BEGIN CERTIFICATE-----\nfirst\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\nsecond\n-----END CERTIFICATE-----\n"
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, []byte(cas), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster.Kubectl(t, "create", "configmap", "realmkeeper-ca-bundle", "--namespace", "realmkeeper-system", "--from-file", file)
	for range 2 { // Later runs replace the copy.
		command := exec.CommandContext(t.Context(), "bash", "-c", "set -o pipefail; "+string(found[1]))
		command.Dir = t.TempDir()
		command.Env = append(os.Environ(), "PATH="+cluster.BinDir+":"+os.Getenv("PATH"), "KUBECONFIG="+cluster.Kubeconfig)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s\n%v: %s", found[1], err, out)
		}
	}
	got := cluster.Kubectl(t, "get", "configmap", "realmkeeper-ca-bundle", "--namespace", "cert-manager", "--output", `go-template={{index .data "ca.crt"}}`)
	if got != cas {
		t.Errorf("the copy contains %q, want %q", got, cas)
	}
}

// writeNamespace returns the path of a manifest with the namespace.
func writeNamespace(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "namespace.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: "+name+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
