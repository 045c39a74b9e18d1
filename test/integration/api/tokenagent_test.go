package api_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// tokenAgentBlock returns the block of YAML on the page about the token agent that starts with a text.
func tokenAgentBlock(t *testing.T, start string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "token-agent.md"))
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

// restrictedNamespace returns a namespace in which Pods must meet the restricted Pod Security Standard.
func restrictedNamespace(t *testing.T, cluster *env.Env) string {
	t.Helper()
	namespace := cluster.Namespace(t)
	cluster.Kubectl(t, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	return namespace
}

// TestTokenAgentPod creates the objects on the page about the token agent, and the variant with a credentials Secret.
func TestTokenAgentPod(t *testing.T) {
	cluster := env.Start(t)
	namespace := restrictedNamespace(t, cluster)
	deleteObjects(t, cluster)
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	objects := strings.ReplaceAll(tokenAgentBlock(t, "apiVersion: v1\nkind: ServiceAccount\n"), "acme-apps", namespace)
	if err := os.WriteFile(file, []byte(objects), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster.Kubectl(t, "apply", "--server-side", "--validate=strict", "--filename", file)
	// The block with the other variant has only what differs.
	variant := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(tokenAgentBlock(t, "initContainers:\n")), &variant); err != nil {
		t.Fatal(err)
	}
	var pod map[string]any
	for document := range strings.SplitSeq(objects, "\n---\n") {
		if strings.Contains(document, "kind: Pod\n") {
			if err := yaml.UnmarshalStrict([]byte(document), &pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	pod["metadata"].(map[string]any)["name"] = "billing"
	spec := pod["spec"].(map[string]any)
	replaceArguments(spec, variant)
	content, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	cluster.Kubectl(t, "apply", "--server-side", "--validate=strict", "--filename", file)
}

// replaceArguments replaces the arguments of the sidecar and the volume with the credentials.
func replaceArguments(spec, variant map[string]any) {
	first := func(in map[string]any, list string) map[string]any { return in[list].([]any)[0].(map[string]any) }
	first(spec, "initContainers")["args"] = first(variant, "initContainers")["args"]
	spec["volumes"].([]any)[1] = variant["volumes"].([]any)[0]
}

// TestTokenAgentComponent builds the kustomization on the page with the component of this checkout. The API server
// accepts all kinds of workloads, and their Pods in a namespace with the restricted Pod Security Standard.
func TestTokenAgentComponent(t *testing.T) {
	cluster := env.Start(t)
	namespace := restrictedNamespace(t, cluster)
	const workload = `
apiVersion: apps/v1
kind: KIND
metadata: {name: reports}
spec:
  selector: {matchLabels: {app: reports}}
  template:
    metadata: {labels: {app: reports}}
    spec:
      serviceAccountName: default
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: reports
          image: reports:v1
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
          volumeMounts: [{name: token, mountPath: /var/run/token, readOnly: true}]
`
	dir := t.TempDir()
	component, err := filepath.Rel(dir, absolute(t, filepath.Join(manifests, "components", "token-agent")))
	if err != nil {
		t.Fatal(err)
	}
	overlay := "namespace: " + namespace + "\nnamePrefix: staging-\n" +
		regexp.MustCompile(`https://github\.com/\S+/components/token-agent\S*`).ReplaceAllString(tokenAgentBlock(t, "# kustomization.yaml\n"), component)
	var workloads []string
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		workloads = append(workloads, strings.ReplaceAll(workload, "KIND", kind))
	}
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("kustomization.yaml", overlay)
	write("deployment.yaml", strings.Join(workloads, "---"))
	built := cluster.Kubectl(t, "kustomize", dir)
	for text, want := range map[string]int{
		"kind: ConfigMap": 0,
		"value: https://realmkeeper-token-server.realmkeeper-system.svc/acme/oauth2/token\n": 3,
		"audience: https://api.example.com/acme\n":                                           3,
		"image: ghcr.io/realmkeeper/realmkeeper-token-agent:v0.1.0\n":                        3,
	} {
		if got := strings.Count(built, text); got != want {
			t.Errorf("%q is in the manifests %d times, want %d:\n%s", text, got, want, built)
		}
	}
	cluster.Kubectl(t, "apply", "-k", dir, "--server-side", "--dry-run=server", "--validate=strict")
	var deployment struct {
		Spec struct{ Template map[string]any }
	}
	first, _, _ := strings.Cut(built, "\n---\n")
	if err := yaml.Unmarshal([]byte(first), &deployment); err != nil {
		t.Fatal(err)
	}
	pod := deployment.Spec.Template
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	pod["metadata"] = map[string]any{"name": "reports", "namespace": namespace}
	content, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	cluster.Kubectl(t, "apply", "--server-side", "--validate=strict", "--filename", write("pod.yaml", string(content)))
}
