package version_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/version"
)

func TestCheckKubernetes(t *testing.T) {
	tests := map[string]struct {
		gitVersion string
		want       error
	}{
		"oldest":                        {"v1.34.0", nil},
		"newest":                        {"v1.37.2", nil},
		"pre-release of the oldest":     {"v1.34.0-rc.1", nil},
		"GKE":                           {"v1.34.5-gke.100", nil},
		"EKS":                           {"v1.35.1-eks-3cfe0ce", nil},
		"k3s":                           {"v1.35.2+k3s1", nil},
		"OpenShift":                     {"v1.34.4+aba1e8d", nil},
		"without a patch version":       {"v1.34+", nil},
		"without the prefix":            {"1.34.0", nil},
		"before the oldest":             {"v1.33.13", version.ErrKubernetesTooOld},
		"before the oldest, of a cloud": {"v1.33.9-gke.1045000", version.ErrKubernetesTooOld},
		"with one digit":                {"v1.9.0", version.ErrKubernetesTooOld},
		"after the newest":              {"v1.38.0", version.ErrKubernetesUntested},
		"next major version":            {"v2.0.0", version.ErrKubernetesUntested},
		"three digits":                  {"v1.100.0", version.ErrKubernetesUntested},
		"major version only":            {"v1", version.ErrKubernetesUntested},
		"build from source":             {"v0.0.0-master+$Format:%H$", version.ErrKubernetesUntested},
		"empty":                         {"", version.ErrKubernetesUntested},
		"not a version":                 {"unknown", version.ErrKubernetesUntested},
		"number that is too large":      {"v1.99999999999999999999.0", version.ErrKubernetesUntested},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := version.CheckKubernetes(tc.gitVersion); !errors.Is(err, tc.want) {
				t.Errorf("CheckKubernetes(%q) = %v, want %v", tc.gitVersion, err, tc.want)
			}
		})
	}
}

// All supported versions have a control plane for tests, and the chart requires the oldest one or
// later.
func TestSupportedVersionsAreTested(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	modules, err := filepath.Glob(filepath.Join(root, "test", "controlplane", "kubernetes", "*", "go.mod"))
	if err != nil || len(modules) == 0 {
		t.Fatalf("no control planes for tests: %v", err)
	}
	oldest, newest := utilversion.MustParseGeneric(version.OldestKubernetes), utilversion.MustParseGeneric(version.NewestKubernetes)
	if got, want := len(modules), int(newest.Minor()-oldest.Minor())+1; got != want {
		t.Errorf("there are control planes of %d versions, want %d for %s", got, want, version.SupportedKubernetes)
	}
	for _, module := range modules {
		minor := utilversion.MustParseGeneric(filepath.Base(filepath.Dir(module)))
		if minor.LessThan(oldest) || minor.GreaterThan(newest) {
			t.Errorf("there is a control plane of %s, which is not one of %s", minor, version.SupportedKubernetes)
		}
	}
	chart := testkit.Value(os.ReadFile(filepath.Join(root, "charts", "realmkeeper", "Chart.yaml")))(t)
	if want := `kubeVersion: ">=` + version.OldestKubernetes + `.0-0"`; !strings.Contains(string(chart), want) {
		t.Errorf("Chart.yaml does not contain %s", want)
	}
}
