package chart_test

import (
	"path/filepath"
	"testing"

	env "github.com/realmkeeper/realmkeeper/test/framework/env"
)

// TestAPIServerAcceptsManifests applies the rendered chart to a real API server with the CRDs of
// the other projects that the chart uses, in a namespace that enforces the restricted Pod Security
// Standard.
func TestAPIServerAcceptsManifests(t *testing.T) {
	cluster := env.Start(t)
	namespace := restrictedNamespace(t, cluster)
	// A dry run doesn't create the namespaces that the chart contains. All but the first are set in
	// ci/everything-values.yaml.
	for _, name := range []string{namespace + "-records", "realmkeeper-records", "acme-apps", "shop"} {
		cluster.Kubectl(t, "create", "namespace", name)
	}
	// Some CRDs are too large for the annotation of a client-side apply.
	for _, file := range thirdPartyCRDs(t) {
		cluster.Kubectl(t, "apply", "--server-side", "--filename", file)
		t.Cleanup(func() { cluster.Kubectl(t, "delete", "--wait=false", "--filename", file) })
	}
	cluster.Kubectl(t, "apply", "--server-side", "--kustomize", "../../config/crd")
	t.Cleanup(func() { deleteCRDs(t, cluster) })
	cluster.Kubectl(t, "wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
	for name, values := range values {
		t.Run(name, func(t *testing.T) {
			apply(t, cluster, helm4.render(t, namespace, values...), "--dry-run=server", "--server-side", "--force-conflicts")
		})
	}
	t.Run("with Helm 3", func(t *testing.T) {
		apply(t, cluster, helm3.render(t, namespace, values["everything"]...), "--dry-run=server", "--server-side", "--force-conflicts")
	})
}

func restrictedNamespace(t *testing.T, cluster *env.Env) string {
	t.Helper()
	namespace := cluster.Namespace(t)
	for _, mode := range []string{"enforce", "warn"} {
		cluster.Kubectl(t, "label", "namespace", namespace, "pod-security.kubernetes.io/"+mode+"=restricted")
	}
	return namespace
}

// thirdPartyCRDs returns the CRD files in the modules of cert-manager, the Prometheus operator, and
// the Gateway API.
func thirdPartyCRDs(t *testing.T) (paths []string) {
	t.Helper()
	for module, files := range map[string][]string{
		"github.com/cert-manager/cert-manager": {"deploy/crds/cert-manager.io_certificates.yaml"},
		"github.com/prometheus-operator/prometheus-operator": {
			"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
			"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
			"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		},
		"sigs.k8s.io/gateway-api": {
			"config/crd/standard/gateway.networking.k8s.io_backendtlspolicies.yaml",
			"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
			"config/crd/standard/gateway.networking.k8s.io_tlsroutes.yaml",
		},
	} {
		dir := env.Module(t, module)
		for _, file := range files {
			paths = append(paths, filepath.Join(dir, file))
		}
	}
	return paths
}
