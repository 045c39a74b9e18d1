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
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// The plugin as its users have it: found by kubectl, with their kubeconfig, against the
// real operator and token servers; and in a pod, from the files of the Secret.
func TestPlugin(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	team := cluster.Namespace(t)
	billing := install.ApiClient(team, "billing", "acme")
	renamed := install.ApiClient(team, "renamed", "acme", func(c *v1alpha1.ApiClient) {
		c.Spec.Secret = &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{
			SecretName: "elsewhere",
			Keys: map[string]v1alpha1.SecretDataKey{
				"client_id": "USER", "client_secret": "PASSWORD", "token_url": "URL", "ca.crt": "CA",
			},
		}}
	})
	suspended := install.ApiClient(team, "suspended", "acme", func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
	inst.Create(t, install.Realm("acme"), billing, renamed, suspended)
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
		t.Run("token for scripts, of "+c.Name, func(t *testing.T) {
			got := kubectl("token", c.Name, "-n", team, "-o", "token")
			if got.code != 0 || got.stderr != "" {
				t.Fatalf("%+v", got)
			}
			if id := clientIDOf(t, strings.TrimSuffix(got.stdout, "\n")); id != c.Status.ClientID {
				t.Errorf("the token is for %q", id)
			}
		})
	}
	t.Run("facts for people", func(t *testing.T) {
		got := kubectl("token", "billing", "--namespace="+team)
		consumer := inst.ConsumerSecret(t, billing)
		for _, want := range []string{
			string(consumer.Data["token_url"]), `"` + string(consumer.Data["issuer"]) + `"`, `"` + string(consumer.Data["client_id"]) + `"`, `"ES256"`,
		} {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("%+v, without %s", got, want)
			}
		}
		if got.code != 0 || strings.Contains(got.stdout+got.stderr, string(consumer.Data["client_secret"])) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("what its status says of a client that isn't Ready", func(t *testing.T) {
		got := kubectl("token", "suspended", "-n", team)
		if got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, "Set spec.suspend to false to resume.") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("no such client", func(t *testing.T) {
		got := kubectl("token", "none", "-n", team)
		if got.code != 1 || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "none") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("in a pod", func(t *testing.T) {
		dir := t.TempDir()
		for key, value := range inst.ConsumerSecret(t, billing).Data {
			if err := os.WriteFile(filepath.Join(dir, key), value, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		// No cluster DNS knows the address for pods here, so the one for all stands for it.
		if err := os.Rename(filepath.Join(dir, "token_url"), filepath.Join(dir, "cluster_token_url")); err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), plugin, "token", "--from-directory", dir, "--wait", "60s")
		command.Env = []string{} // as in an image that holds nothing else
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

// outcome is how a program ended.
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
