//go:build e2e

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/test/framework/leak"
)

// kmsPlugin is the name of the sidecar with the KMS plugin.
const kmsPlugin = "kms-plugin"

// TestKeyEncryption runs a KMS plugin over SoftHSM as a sidecar of the operator and the token servers,
// in a namespace that admits only restricted Pods. It enables the encryption of private keys in an
// installation that is in use, then kills the plugins, and then makes them unavailable. The encrypted key
// is that of a new realm, because the rotation of a signing key takes at least ten minutes.
func TestKeyEncryption(t *testing.T) {
	needsNode(t)
	c := inUse(t)
	reusable = false // no other test encrypts keys
	name, keys := realmRecord(t, "acme")
	private := privateMembers(t, keys)
	expectSecretsWith(t, private, name)

	enabling := startLoad(t, c.Namespace, "enabling", c.Status.SecretName, "--rate", "500")
	keyID := createKey(t)
	values := filepath.Join("test", "e2e", "key-encryption-values.yaml")
	run(t, tool("helm"), installArgs("upgrade", chart, currentVersion, "--values", values)...)
	awaitPlugins(t)
	expectSecretsWith(t, private, name) // until a rotation
	enabling.requireNoFailures(t)
	c = apiClient(c.Namespace, "sealed", "sealed")
	create(t, realm("sealed"), c)
	awaitReady(t, c)
	expectEncrypted(t, "sealed", keyID)

	// Token servers sign from memory while their plugins are killed. The loads don't use the Service,
	// because a Pod isn't ready until the kubelet has restarted its plugin.
	restarted, other := twoTokenServers(t)
	loads := []*load{startDirectLoad(t, c, "restarted", restarted), startDirectLoad(t, c, "other", other)}
	for _, p := range slices.Concat(tokenServers(t), operators(t)) {
		signal(t, &p, kmsPlugin, "SIGKILL")
	}
	awaitRestarted(t)
	awaitRollout(t, tokenService)
	awaitRollout(t, operator)
	loads[0].requireNoFailures(t)

	// A restarted token server waits until its plugin responds. The other one signs from memory.
	signal(t, &other, kmsPlugin, "SIGSTOP")
	signal(t, &restarted, kmsPlugin, "SIGSTOP")
	signal(t, &restarted, "token-server", "SIGKILL")
	awaitUnready(t, restarted, "waiting for the KMS plugin to decrypt signing keys of 1 realms")
	expectUnavailable(t, restarted, c)
	loads[1].requireNoFailures(t)
	signal(t, &other, kmsPlugin, "SIGCONT")
	signal(t, &restarted, kmsPlugin, "SIGCONT")
	awaitRollout(t, tokenService)
	awaitReady(t, c)
	if token := fetchToken(t, c); strings.Count(token, ".") != 2 {
		t.Errorf("the token is %q", token)
	}
}

// createKey generates a key encryption key on this machine and returns its ID. All plugins unpack it from
// a Secret.
func createKey(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	keyID := strings.TrimSpace(run(t, tool("kms"), "rotate", "--token", dir))
	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "kms-token"},
		Data:       map[string][]byte{"token.tar": []byte(run(t, "tar", "-C", dir, "-c", "."))},
	})
	return keyID
}

// realmRecord returns the name of the record of a Realm, and the signing keys in it.
func realmRecord(t *testing.T, realm string) (name string, keys []signingkey.Key) {
	t.Helper()
	records := &corev1.SecretList{}
	if err := cluster.List(t.Context(), records, client.InNamespace(recordsNamespace),
		client.MatchingLabels{v1beta1.RecordLabel: string(record.KindRealm)}); err != nil {
		t.Fatal(err)
	}
	for i := range records.Items {
		body, err := record.ReadRealm(&records.Items[i])
		if err != nil {
			t.Fatal(err)
		}
		if body.Name == realm && len(body.Keys) > 0 {
			return records.Items[i].Name, body.Keys
		}
	}
	t.Fatalf("none of %d records has keys of Realm %s", len(records.Items), realm)
	return "", nil
}

// privateMembers returns the private members of keys that aren't encrypted.
func privateMembers(t *testing.T, keys []signingkey.Key) []string {
	t.Helper()
	var members []string
	for i := range keys {
		encoded, err := keys[i].PrivateJWKS()
		if err != nil {
			t.Fatal(err)
		}
		var set struct{ Keys []struct{ D string } }
		if err := json.Unmarshal(encoded, &set); err != nil {
			t.Fatal(err)
		}
		for _, jwk := range set.Keys {
			if jwk.D == "" {
				t.Fatalf("key %s has no private member", keys[i].ID)
			}
			members = append(members, jwk.D)
		}
	}
	return members
}

// expectSecretsWith checks which Secrets in the cluster contain private members of keys.
func expectSecretsWith(t *testing.T, members []string, want ...string) {
	t.Helper()
	secrets := &corev1.SecretList{}
	if err := cluster.List(t.Context(), secrets); err != nil {
		t.Fatal(err)
	}
	places := leak.Places{}
	for _, s := range secrets.Items {
		for _, value := range s.Data {
			places[s.Name] += string(value) + "\n"
		}
	}
	if diff := cmp.Diff(want, places.Containing(members)); diff != "" {
		t.Errorf("Secrets with private keys (-want +got):\n%s", diff)
	}
}

// expectEncrypted checks that the private keys of a Realm are encrypted with a key encryption key.
func expectEncrypted(t *testing.T, realm, keyID string) {
	t.Helper()
	_, keys := realmRecord(t, realm)
	for i := range keys {
		if sealed := keys[i].Sealed(); sealed == nil || sealed.KeyID != keyID {
			t.Errorf("key %s is encrypted with %+v, want %s", keys[i].ID, sealed, keyID)
		}
	}
}

// awaitPlugins waits until all Pods of the operator and the token servers have a plugin.
func awaitPlugins(t *testing.T) {
	t.Helper()
	eventually(t, "all Pods to have a KMS plugin", func() error {
		for _, p := range slices.Concat(tokenServers(t), operators(t)) {
			if len(p.Spec.InitContainers) != 1 || p.Spec.InitContainers[0].Name != kmsPlugin {
				return fmt.Errorf("%w: %s", errNotYet, p.Name)
			}
		}
		return nil
	})
	awaitRollout(t, tokenService)
	awaitRollout(t, operator)
}

// awaitRestarted waits until the kubelet has restarted the plugins of all Pods.
func awaitRestarted(t *testing.T) {
	t.Helper()
	eventually(t, "the plugins to restart", func() error {
		for _, p := range slices.Concat(tokenServers(t), operators(t)) {
			if s := p.Status.InitContainerStatuses[0]; s.RestartCount == 0 || !s.Ready {
				return fmt.Errorf("%w: %s %+v", errNotYet, p.Name, s)
			}
		}
		return nil
	})
}

func twoTokenServers(t *testing.T) (one, other corev1.Pod) {
	t.Helper()
	pods := tokenServers(t)
	if len(pods) != 2 {
		t.Fatalf("there are %d token servers, want 2", len(pods))
	}
	return pods[0], pods[1]
}

// signal sends a signal to a running container of a Pod.
func signal(t *testing.T, p *corev1.Pod, container, signal string) {
	t.Helper()
	ctr(t, "tasks", "kill", "--signal", signal, containerOf(t, p, container))
}

// startDirectLoad requests tokens from one token server.
func startDirectLoad(t *testing.T, c *v1beta1.ApiClient, name string, server corev1.Pod) *load {
	t.Helper()
	return startLoad(t, c.Namespace, name, c.Status.SecretName, "--address", server.Status.PodIP+":8443", "--rate", "500")
}

// awaitUnready waits until a token server reports why it isn't ready, and Kubernetes knows that.
func awaitUnready(t *testing.T, server corev1.Pod, reason string) {
	t.Helper()
	eventually(t, server.Name+" to wait", func() error {
		status, body, err := readiness(t, server)
		if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(body, reason) {
			return fmt.Errorf("%w: %d %s %w", errNotYet, status, body, err)
		}
		get(t, server.Namespace, server.Name, &server)
		if server.Status.ContainerStatuses[0].Ready {
			return fmt.Errorf("%w: its container is ready", errNotYet)
		}
		return nil
	})
}

func readiness(t *testing.T, server corev1.Pod) (status int, body string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Status.PodIP+":8080/readyz", http.NoBody)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

// expectUnavailable checks that a token server asks the client to try again later.
func expectUnavailable(t *testing.T, server corev1.Pod, c *v1beta1.ApiClient) {
	t.Helper()
	secret := &corev1.Secret{}
	get(t, c.Namespace, c.Status.SecretName, secret)
	err := requestToken(t.Context(), server.Status.PodIP+":8443", secret)
	failure, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok || failure.Response.StatusCode != http.StatusServiceUnavailable || failure.Response.Header.Get("Retry-After") == "" {
		t.Errorf("a token server without signing keys responded with %v, want 503 and Retry-After", err)
	}
}
