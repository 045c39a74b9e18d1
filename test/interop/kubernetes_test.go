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

	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// The API server of Kubernetes knows a client by its token, with the configuration of the
// guide, and goes on doing so as the key rotates.
func testKubernetesAcrossRotation(t *testing.T, p *place) {
	before := p.token(t)
	testinstall.Eventually(t, "the API server to know the client", func() error { return p.knownToKubernetes(t, before) })
	p.rotate(t)
	for name, token := range map[string]string{"before": before, "after": p.token(t)} {
		if err := p.knownToKubernetes(t, token); err != nil {
			t.Errorf("the token from %s the rotation: %v", name, err)
		}
	}
	if err := p.knownToKubernetes(t, before[:len(before)-8]); err == nil {
		t.Error("a token that is cut off passes")
	}
}

// configureKubernetes gives the API server the configuration of the guide.
func (p *place) configureKubernetes(t *testing.T) {
	t.Helper()
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "gateways", "kubernetes", "authentication.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(p.authority)
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer(
		"https://api.example.com/acme", p.issuer,
		"https://kubernetes.example.com", audience,
		"CERTIFICATE_AUTHORITY", strings.ReplaceAll(strings.TrimSpace(string(authority)), "\n", "\n      "),
	).Replace(string(guide))
	if err := os.WriteFile(p.env.AuthenticationConfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

var errOther = errors.New("taken for another")

// knownToKubernetes asks with kubectl, as the guide does.
func (p *place) knownToKubernetes(t *testing.T, token string) error {
	t.Helper()
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, p.env.Config.CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(p.env.BinDir, "kubectl"), "auth", "whoami", "--output", "json",
		"--kubeconfig", os.DevNull, "--server", p.env.Config.Host, "--certificate-authority", authority, "--token", token).Output()
	if err != nil {
		return err
	}
	var review authenticationv1.SelfSubjectReview
	if err := json.Unmarshal(out, &review); err != nil {
		return err
	}
	got := review.Status.UserInfo
	want := authenticationv1.UserInfo{Username: "acme:" + p.clientID, Groups: []string{"acme:" + scope, "system:authenticated"}, Extra: got.Extra}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%w (-want +got):\n%s", errOther, diff)
	}
	return nil
}
