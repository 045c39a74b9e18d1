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
	page, err := os.ReadFile(filepath.Join(root, "docs", "token-agent.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```\n")
	account, c, p := &corev1.ServiceAccount{}, &v1beta1.ApiClient{}, &corev1.Pod{}
	documents := strings.Split(strings.ReplaceAll(block, "acme-apps", apps), "\n---\n")
	for i, object := range []client.Object{account, c, p} {
		if err := yaml.UnmarshalStrict([]byte(documents[i]), object); err != nil {
			t.Fatal(err)
		}
	}
	bundle := &corev1.ConfigMap{}
	get(t, systemNamespace, tokenservice.BundleName, bundle)
	create(t, realm("acme"), account, c, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: apps, Name: "realmkeeper-ca"}, Data: map[string]string{"ca.crt": bundle.Data["ca.crt"]},
	})
	awaitReady(t, c)

	agent, reader := &p.Spec.InitContainers[0], &p.Spec.Containers[0]
	agent.Image, agent.ImagePullPolicy, agent.SecurityContext.RunAsUser = tokenAgentImage, corev1.PullIfNotPresent, new(int64(65532))
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
