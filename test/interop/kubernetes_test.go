package interop_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// kubeAPIServer checks that the Kubernetes API server, configured as in the guide, authenticates a client
// by its token.
func kubeAPIServer(t *testing.T, i *installation) func(*testing.T, string) {
	first := i.token(t)
	install.Eventually(t, "the API server to authenticate the client", func() error { return i.authenticate(t, first) })
	for _, version := range []string{"v1", "v1beta1"} {
		if err := i.authenticateWithPlugin(t, version); err != nil {
			t.Errorf("With an exec plugin of version %s: %v", version, err)
		}
	}
	return func(t *testing.T, token string) {
		if err := i.authenticate(t, token); err != nil {
			t.Error(err)
		}
		if err := i.authenticate(t, token[:len(token)-8]); err == nil {
			t.Error("the API server accepted a truncated token")
		}
	}
}

// configureKubernetes configures the API server as the guide describes.
func (i *installation) configureKubernetes(t *testing.T) {
	t.Helper()
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "gateways", "kubernetes", "authentication.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(i.authority)
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer(
		"https://api.example.com/acme", i.issuer,
		"https://kubernetes.example.com", audience,
		"CERTIFICATE_AUTHORITY", strings.ReplaceAll(strings.TrimSpace(string(authority)), "\n", "\n      "),
	).Replace(string(guide))
	if err := os.WriteFile(i.cluster.AuthenticationConfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

var errWrongUser = errors.New("authenticated as an unexpected user")

// authenticate uses kubectl as the guide describes to check that the API server accepts a token and
// authenticates the client.
func (i *installation) authenticate(t *testing.T, token string) error {
	t.Helper()
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, i.cluster.Config.CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	return i.whoami(t, "--kubeconfig", os.DevNull, "--server", i.cluster.Config.Host, "--certificate-authority", authority, "--token", token)
}

// authenticateWithPlugin does the same with the kubeconfig of the guide, so that kubectl gets the token from the plugin.
func (i *installation) authenticateWithPlugin(t *testing.T, version string) error {
	t.Helper()
	dir := t.TempDir()
	files := i.inst.CredentialsSecret(t, i.client).Data
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "gateways", "kubernetes", "kubeconfig.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files["kubeconfig"] = []byte(strings.NewReplacer(
		"https://kubernetes.example.com:6443", i.cluster.Config.Host,
		"certificate-authority: ca.crt", "certificate-authority: api-server.crt",
		"client.authentication.k8s.io/v1", "client.authentication.k8s.io/"+version,
		"command: kubectl-realmkeeper", "command: "+install.Binary(t, i.cluster, "kubectl-realmkeeper"),
		"/credentials", dir,
	).Replace(string(guide)))
	files["api-server.crt"] = i.cluster.Config.CAData
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return i.whoami(t, "--kubeconfig", filepath.Join(dir, "kubeconfig"))
}

// whoami returns an error unless the API server authenticates kubectl as the client.
func (i *installation) whoami(t *testing.T, flags ...string) error {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(i.cluster.BinDir, "kubectl"), append([]string{"auth", "whoami", "--output", "json"}, flags...)...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return err
	}
	var review authenticationv1.SelfSubjectReview
	if err := json.Unmarshal(out, &review); err != nil {
		return err
	}
	got := review.Status.UserInfo
	want := authenticationv1.UserInfo{Username: "acme:" + i.clientID, Groups: []string{"acme:" + scope, "system:authenticated"}, Extra: got.Extra}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%w (-want +got):\n%s", errWrongUser, diff)
	}
	return nil
}
