package clients_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// testKubectlPlugin runs the plugin through kubectl with a kubeconfig, and directly, as in a Pod
// with a mounted Secret.
func testKubectlPlugin(t *testing.T, inst *install.Installation) {
	cluster := inst.Env
	team := cluster.Namespace(t)
	billing := install.ApiClient(team, "billing", "plugin")
	renamed := install.ApiClient(team, "renamed", "plugin", func(c *v1alpha1.ApiClient) {
		c.Spec.Secret = &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{
			SecretName: "elsewhere",
			Keys: map[string]v1alpha1.SecretDataKey{
				"client_id": "USER", "client_secret": "PASSWORD", "token_url": "URL", "ca.crt": "CA",
			},
		}}
	})
	suspended := install.ApiClient(team, "suspended", "plugin", func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
	inst.Create(t, install.Realm("plugin"), billing, renamed, suspended)
	inst.AwaitReady(t, billing, metav1.ConditionTrue, v1alpha1.ReasonReady)
	inst.AwaitReady(t, renamed, metav1.ConditionTrue, v1alpha1.ReasonReady)
	inst.AwaitReady(t, suspended, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
	plugin := install.Binary(t, cluster, "kubectl-realmkeeper")
	kubectl := func(args ...string) outcome {
		command := exec.CommandContext(t.Context(), filepath.Join(cluster.BinDir, "kubectl"), append([]string{"realmkeeper"}, args...)...)
		command.Env = []string{"PATH=" + filepath.Dir(plugin), "HOME=" + t.TempDir(), "KUBECONFIG=" + cluster.Kubeconfig}
		return run(t, command)
	}

	for _, c := range []*v1alpha1.ApiClient{billing, renamed} {
		t.Run("token only for "+c.Name, func(t *testing.T) {
			got := kubectl("token", c.Name, "-n", team, "-o", "token")
			if got.code != 0 || got.stderr != "" {
				t.Fatalf("%+v", got)
			}
			if id := clientIDOf(t, strings.TrimSuffix(got.stdout, "\n")); id != c.Status.ClientID {
				t.Errorf("Token has client ID %q, want %q", id, c.Status.ClientID)
			}
		})
	}
	t.Run("token claims", func(t *testing.T) {
		got := kubectl("token", "billing", "--namespace="+team)
		secret := inst.CredentialsSecret(t, billing)
		for _, want := range []string{
			string(secret.Data["token_url"]), `"` + string(secret.Data["issuer"]) + `"`, `"` + string(secret.Data["client_id"]) + `"`, `"ES256"`,
		} {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("Output %+v does not contain %s", got, want)
			}
		}
		if got.code != 0 || strings.Contains(got.stdout+got.stderr, string(secret.Data["client_secret"])) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("status message of a client that is not Ready", func(t *testing.T) {
		got := kubectl("token", "suspended", "-n", team)
		if got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, "Set spec.suspend to false to resume it.") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("client does not exist", func(t *testing.T) {
		got := kubectl("token", "none", "-n", team)
		if got.code != 1 || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "none") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("in a Pod", func(t *testing.T) {
		dir := t.TempDir()
		for key, value := range inst.CredentialsSecret(t, billing).Data {
			if err := os.WriteFile(filepath.Join(dir, key), value, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		// The cluster-internal endpoint has no DNS name here, so use the public endpoint instead.
		if err := os.Rename(filepath.Join(dir, "token_url"), filepath.Join(dir, "cluster_token_url")); err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), plugin, "token", "--from-directory", dir, "--wait", "60s")
		command.Env = []string{} // as in an image that contains only the plugin
		if got := run(t, command); got.code != 0 || !strings.Contains(got.stdout, billing.Status.ClientID) {
			t.Errorf("%+v", got)
		}
	})
}

func clientIDOf(t *testing.T, accessToken string) string {
	t.Helper()
	token, err := jwt.ParseSigned(accessToken, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	var claims struct {
		ClientID string `json:"client_id"`
	}
	if err := token.UnsafeClaimsWithoutVerification(&claims); err != nil {
		t.Fatal(err)
	}
	return claims.ClientID
}

// outcome is the result of a command.
type outcome struct {
	code           int
	stdout, stderr string
}

func run(t *testing.T, command *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil && command.ProcessState == nil {
		t.Fatal(err)
	}
	return outcome{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}
