//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/tokenservice"
)

// TestPodReadsTokenFile runs the Pod on the page about the token agent. Its container runs as another user than the
// agent, and starts once the file has a token.
func TestPodReadsTokenFile(t *testing.T) {
	useInstallation(t)
	apps := namespace(t, "apps")
	create(t, realm("acme"))
	account, c, p := tokenAgentObjects(t, apps)
	create(t, account, c, trustBundle(t, apps))
	awaitReady(t, c)

	reader := &p.Spec.Containers[0]
	reader.Image, reader.ImagePullPolicy, reader.SecurityContext.RunAsUser = workloadImage, corev1.PullIfNotPresent, new(int64(1000))
	reader.Command = []string{"/workload", "file", "/var/run/token/access_token"}
	p.Spec.Volumes[1].Projected.Sources[0].ServiceAccountToken.Audience = strings.TrimSuffix(c.Status.TokenEndpoint, "/oauth2/token")
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	p.Annotations = map[string]string{"kubectl.kubernetes.io/default-container": reader.Name} // for kubectl logs
	create(t, p)
	if printed := succeeds(t, p); strings.Count(printed, ".") != 2 {
		t.Errorf("the pod printed %s, want a token", printed)
	}
}

// tokenAgentObjects returns the objects on the page about the token agent in a namespace, with the image of the agent.
func tokenAgentObjects(t *testing.T, namespace string) (account *corev1.ServiceAccount, c *v1beta1.ApiClient, p *corev1.Pod) {
	t.Helper()
	account, c, p = &corev1.ServiceAccount{}, &v1beta1.ApiClient{}, &corev1.Pod{}
	block := strings.ReplaceAll(tokenAgentBlock(t, "apiVersion: v1\nkind: ServiceAccount\n"), "acme-apps", namespace)
	documents := strings.Split(block, "\n---\n")
	for i, object := range []client.Object{account, c, p} {
		if err := yaml.UnmarshalStrict([]byte(documents[i]), object); err != nil {
			t.Fatal(err)
		}
	}
	agent := &p.Spec.InitContainers[0]
	agent.Image, agent.ImagePullPolicy, agent.SecurityContext.RunAsUser = tokenAgentImage, corev1.PullIfNotPresent, new(int64(65532))
	return account, c, p
}

// tokenAgentBlock returns the block of YAML on the page about the token agent that starts with a text.
func tokenAgentBlock(t *testing.T, start string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "token-agent.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "```yaml\n"+start)
	block, _, _ = strings.Cut(block, "```\n")
	if !found {
		t.Fatalf("the page has no block that starts with %q", start)
	}
	return start + block
}

// trustBundle returns a copy of the CA for the workloads in a namespace.
func trustBundle(t *testing.T, namespace string) *corev1.ConfigMap {
	t.Helper()
	bundle := &corev1.ConfigMap{}
	get(t, systemNamespace, tokenservice.BundleName, bundle)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "realmkeeper-ca"},
		Data:       map[string]string{"ca.crt": bundle.Data["ca.crt"]},
	}
}
