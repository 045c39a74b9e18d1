package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	release "github.com/realmkeeper/realmkeeper/hack/release"
)

// TestStatement checks that the provenance covers each file and image. `make rehearse` verifies it with cosign.
func TestStatement(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"SHA256SUMS": "aa  crds.yaml\nbb  images.txt\n",
		"images.txt": "registry.example/team/realmkeeper:v0.1.0@sha256:cc\n",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	content, err := release.NewStatement("v0.1.0", "dd", dir)
	must(t, err)
	type resource struct {
		Name   string
		Digest map[string]string
	}
	var got struct {
		Subject   []resource
		Predicate struct {
			BuildDefinition struct {
				ExternalParameters   map[string]string
				ResolvedDependencies []resource
			}
		}
	}
	must(t, json.Unmarshal(content, &got))
	want := got
	want.Subject = []resource{
		{"crds.yaml", map[string]string{"sha256": "aa"}},
		{"images.txt", map[string]string{"sha256": "bb"}},
		{"registry.example/team/realmkeeper:v0.1.0", map[string]string{"sha256": "cc"}},
	}
	want.Predicate.BuildDefinition.ExternalParameters = map[string]string{"VERSION": "v0.1.0", "REGISTRY": "", "ONLY": ""}
	want.Predicate.BuildDefinition.ResolvedDependencies = []resource{{"", map[string]string{"gitCommit": "dd"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
