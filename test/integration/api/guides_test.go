package api_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// TestGuides validates the objects in the guides and examples with a real API server. None of them may
// replace an object of the samples or of another guide, such as the Realm that users already have.
func TestGuides(t *testing.T) {
	cluster := env.Start(t)
	samples := filepath.Join(manifests, "samples")
	cluster.Kubectl(t, "apply", "-f", filepath.Join(samples, "namespace.yaml")) // acme-apps
	for _, namespace := range []string{"acme-ci", "sensors"} {
		cluster.Kubectl(t, "create", "namespace", namespace)
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "guides", "*", "*.yaml"))
	if err != nil || len(files) < 7 {
		t.Fatalf("the guides have the files %q, want at least 7: %v", files, err)
	}
	files = append(files, filepath.Join("..", "..", "..", "docs", "examples", "delegation", "manifests.yaml"))
	names := func(flag, path string) string {
		return cluster.Kubectl(t, "create", "--dry-run=client", "--output", "name", flag, path)
	}
	existing := names("-k", samples)
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(content), "apiVersion:") { // a file for a CI system
				if err := yaml.UnmarshalStrict(content, &map[string]any{}); err != nil {
					t.Error(err)
				}
				return
			}
			for name := range strings.Lines(names("-f", file)) {
				if strings.Contains(existing, name) {
					t.Errorf("%s exists already, so the guide would replace it", strings.TrimSpace(name))
				}
				existing += name
			}
			cluster.Kubectl(t, "apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename", file)
		})
	}

	deleteObjects(t, cluster)
	// Another field manager adds a guide's Realm to an existing one, as docs/guides/README.md says.
	cluster.Kubectl(t, "apply", "--server-side", "--filename", filepath.Join(samples, "realm.yaml"))
	realm := func() (r v1beta1.Realm) {
		if err := yaml.Unmarshal([]byte(cluster.Kubectl(t, "get", "realm", "acme", "--output", "yaml")), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	before := realm()
	added := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		guide := filepath.Base(filepath.Dir(file))
		name := regexp.MustCompile(`kind: Realm\nmetadata:\n  name: (acme-\S+)`).FindSubmatch(content)
		if name == nil {
			continue
		}
		added++
		renamed := filepath.Join(t.TempDir(), "manifests.yaml")
		if err := os.WriteFile(renamed, bytes.ReplaceAll(content, name[1], []byte("acme")), 0o600); err != nil {
			t.Fatal(err)
		}
		cluster.Kubectl(t, "apply", "--server-side", "--field-manager", "guide-"+guide, "--filename", renamed)
	}
	after := realm()
	if got, want := len(after.Spec.TrustedIssuers), 8; got != want || added != 6 {
		t.Errorf("%d guides added %d issuers, want 6 and %d", added, got, want)
	}
	after.Spec.TrustedIssuers = nil
	after.Spec.Grants = after.Spec.Grants[:len(before.Spec.Grants)]
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("the guides changed the existing parts of the Realm (-before +after):\n%s", diff)
	}
}
