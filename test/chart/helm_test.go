// Package chart_test renders and installs the chart as users do, with Helm 3, Helm 4, and a real
// API server.
package chart_test

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // Clients that impersonate an account require a logger.
	// The CRDs are part of the test. The controller manager aggregates roles and deletes dependent
	// objects.
	env.Main(m, env.WithCRDs(), env.WithControllerManager())
}

const (
	// chartDir is the directory of the chart.
	chartDir = "../../charts/realmkeeper"
	// releaseName is the name of the release.
	releaseName = "realmkeeper"
)

// chart is the chart that the tests render and install.
var chart = flag.String("chart", chartDir, "The chart to test, such as a package of a release: an absolute path")

// values contains the arguments for Helm: the profiles of the chart, and values that enable every
// option. Only one of the kinds of monitors can be enabled.
var values = map[string][]string{
	"defaults":   {"--set", "instance.domain=example.com"},
	"testing":    {"--set", "instance.domain=example.com", "--values", chartDir + "/values-testing.yaml"},
	"production": {"--set", "instance.domain=example.com", "--values", chartDir + "/values-production.yaml"},
	"everything": {"--values", chartDir + "/ci/everything-values.yaml"},
	"Pod monitors": {
		"--values", chartDir + "/ci/everything-values.yaml",
		"--set", "metrics.serviceMonitor.enabled=false,metrics.podMonitor.enabled=true,metrics.podMonitor.relabelings[0].targetLabel=cluster",
	},
}

// helm builds Helm of one major version on its first call and returns the path of the binary.
type helm func() (string, error)

var (
	helm3 = newHelm("helm.sh/helm/v3/cmd/helm")
	helm4 = newHelm("helm.sh/helm/v4/cmd/helm")
)

func newHelm(tool string) helm {
	return sync.OnceValues(func() (string, error) {
		// Uses the same build settings as make, so that Helm is built only once. -n builds the tool
		// and prints its path instead of running it.
		command := exec.CommandContext(context.Background(), "go", "tool", "-n", "-modfile=../../hack/tools/helm/go.mod", tool)
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		command.Stderr = os.Stderr
		out, err := command.Output()
		return strings.TrimSpace(string(out)), err
	})
}

// render returns the manifests of the chart for a namespace.
func (h helm) render(t *testing.T, namespace string, values ...string) string {
	t.Helper()
	return h.run(t, "", slices.Concat([]string{"template", releaseName, *chart, "--namespace", namespace, "--kube-version", version.NewestKubernetes}, values)...)
}

// run returns the standard output of Helm. If kubeconfig is empty, Helm has no access to a cluster.
func (h helm) run(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	out, errOut, err := h.try(t, kubeconfig, args...)
	if err != nil {
		t.Fatalf("helm %s: %v\n%s%s", strings.Join(args, " "), err, out, errOut)
	}
	return out
}

func (h helm) try(t *testing.T, kubeconfig string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	path, err := h()
	if err != nil {
		t.Fatalf("Failed to build Helm: %v", err)
	}
	var out, errOut strings.Builder
	home := t.TempDir() // Without the plugins and settings of the current user.
	// Cleanup functions run Helm after the test's context is canceled.
	command := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	command.Env = append(os.Environ(),
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG="+kubeconfig)
	command.Stdout, command.Stderr = &out, &errOut
	err = command.Run()
	return out.String(), errOut.String(), err
}

// apply applies manifests with additional kubectl arguments.
func apply(t *testing.T, cluster *env.Env, manifests string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	return cluster.Kubectl(t, append([]string{"apply", "--filename", file}, args...)...)
}
