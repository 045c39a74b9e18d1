package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	env "github.com/realmkeeper/realmkeeper/test/framework/env"
)

// crds lists the files that contain the gateways' CRDs, by Go module.
var crds = map[string][]string{
	"github.com/envoyproxy/gateway": {
		"charts/gateway-helm/charts/crds/crds/generated/gateway.envoyproxy.io_backends.yaml",
		"charts/gateway-helm/charts/crds/crds/generated/gateway.envoyproxy.io_securitypolicies.yaml",
	},
	"github.com/kong/kubernetes-ingress-controller/v2": {"config/crd/bases/configuration.konghq.com_kongplugins.yaml"},
	"github.com/openshift/api":                         {"route/v1/zz_generated.crd-manifests/routes-Default.crd.yaml"},
	"github.com/traefik/traefik/v3":                    {"integration/fixtures/k8s/01-traefik-crd.yml"},
	"istio.io/api":                                     {"kubernetes/customresourcedefinitions.gen.yaml"},
	"sigs.k8s.io/gateway-api": {
		"config/crd/standard/gateway.networking.k8s.io_backendtlspolicies.yaml",
		"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
	},
}

// kinds lists the kinds that the manifests use. The files contain other CRDs, too.
var kinds = []string{
	"AuthorizationPolicy", "Backend", "BackendTLSPolicy", "HTTPRoute", "IngressRoute", "KongPlugin", "Middleware", "RequestAuthentication", "Route", "SecurityPolicy",
}

// namespaces matches the namespaces in the manifests.
var namespaces = regexp.MustCompile("namespace: (acme-apps|realmkeeper-system)")

// TestGatewayManifests checks the guides' manifests against the gateways' CRDs in a real API
// server. Unknown fields are errors. The gateways themselves don't run here.
func TestGatewayManifests(t *testing.T) {
	cluster := env.Start(t)
	var paths []string
	for module, files := range crds {
		for _, file := range files {
			paths = append(paths, filepath.Join(env.Module(t, module), file))
		}
	}
	install := envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true, MaxTime: time.Minute}
	if err := envtest.ReadCRDFiles(&install); err != nil {
		t.Fatal(err)
	}
	install.Paths = nil
	install.CRDs = slices.DeleteFunc(install.CRDs, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return !slices.Contains(kinds, crd.Spec.Names.Kind)
	})
	if _, err := envtest.InstallCRDs(cluster.Config, install); err != nil || len(install.CRDs) != len(kinds) {
		t.Fatalf("%d CRDs found, want %d: %v", len(install.CRDs), len(kinds), err)
	}
	namespace := cluster.Namespace(t)
	manifests, err := filepath.Glob(filepath.Join("..", "..", "docs", "gateways", "*", "*.yaml"))
	if err != nil || len(manifests) < 5 {
		t.Fatalf("the guides have the manifests %q, want at least 5: %v", manifests, err)
	}
	manifests = append(manifests, filepath.Join("..", "..", "docs", "operations", "network", "route.yaml"))
	for _, manifest := range manifests {
		if name := filepath.Base(manifest); name == "authentication.yaml" || name == "kubeconfig.yaml" {
			continue // configuration files for the API server and kubectl, not objects
		}
		t.Run(filepath.Base(filepath.Dir(manifest))+"/"+filepath.Base(manifest), func(t *testing.T) {
			content, err := os.ReadFile(manifest)
			if err != nil {
				t.Fatal(err)
			}
			kubectl := exec.CommandContext(t.Context(), filepath.Join(cluster.BinDir, "kubectl"), "--kubeconfig", cluster.Kubeconfig,
				"apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename", "-")
			kubectl.Stdin = strings.NewReader(namespaces.ReplaceAllString(string(content), "namespace: "+namespace))
			out, err := kubectl.CombinedOutput()
			if err != nil || strings.Contains(string(out), "Warning") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
