package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/realmkeeper/realmkeeper/internal/testenv"
)

// crds are those of the gateways, by the module that has them.
var crds = map[string][]string{
	"github.com/envoyproxy/gateway": {
		"charts/gateway-helm/charts/crds/crds/generated/gateway.envoyproxy.io_backends.yaml",
		"charts/gateway-helm/charts/crds/crds/generated/gateway.envoyproxy.io_securitypolicies.yaml",
	},
	"github.com/kong/kubernetes-ingress-controller/v2": {"config/crd/bases/configuration.konghq.com_kongplugins.yaml"},
	"github.com/traefik/traefik/v3":                    {"integration/fixtures/k8s/01-traefik-crd.yml"},
	"istio.io/api":                                     {"kubernetes/customresourcedefinitions.gen.yaml"},
	"sigs.k8s.io/gateway-api": {
		"config/crd/standard/gateway.networking.k8s.io_backendtlspolicies.yaml",
		"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
	},
}

// What the guides give for gateways that don't run here is what their CRDs take, in a real
// API server, without a field that they don't know.
func TestManifestsOfGateways(t *testing.T) {
	env := testenv.Start(t)
	var paths []string
	for module, files := range crds {
		for _, file := range files {
			paths = append(paths, filepath.Join(testenv.Module(t, module), file))
		}
	}
	if _, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	manifests, err := filepath.Glob(filepath.Join("..", "..", "docs", "gateways", "*", "*.yaml"))
	if err != nil || len(manifests) < 5 {
		t.Fatalf("the guides have the manifests %q: %v", manifests, err)
	}
	for _, manifest := range manifests {
		if filepath.Base(manifest) == "authentication.yaml" {
			continue // a configuration file of the API server, and no object
		}
		t.Run(filepath.Base(filepath.Dir(manifest))+"/"+filepath.Base(manifest), func(t *testing.T) {
			content, err := os.ReadFile(manifest)
			if err != nil {
				t.Fatal(err)
			}
			kubectl := exec.CommandContext(t.Context(), filepath.Join(env.BinDir, "kubectl"), "--kubeconfig", env.Kubeconfig,
				"apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename", "-")
			kubectl.Stdin = strings.NewReader(strings.ReplaceAll(string(content), "namespace: acme-apps", "namespace: "+namespace))
			out, err := kubectl.CombinedOutput()
			if err != nil || strings.Contains(string(out), "Warning") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
