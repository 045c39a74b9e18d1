package main_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	release "github.com/realmkeeper/realmkeeper/hack/release"
)

const (
	version = "v1.2.3-test.1"
	created = 1750000000 // 2025-06-15T15:06:40Z
)

// TestRelease builds the release of one platform from this checkout.
func TestRelease(t *testing.T) {
	program := buildProgram(t)
	platform := "linux/" + runtime.GOARCH
	dir := filepath.Join(t.TempDir(), "dist", "release")
	// A release replaces what was there.
	must(t, os.MkdirAll(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "old"), nil, 0o600))
	command := exec.Command(program, "--source=../..", "--output="+dir, "--version="+version, "--revision=0123456789ab",
		fmt.Sprint("--source-date-epoch=", created), "--snapshot", "--only="+platform, "--registry=registry.example/team",
		"--ldflags=-s -w -X github.com/realmkeeper/realmkeeper/internal/contract/version.Version="+version)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	archive := archiveOf("kubectl-realmkeeper")

	t.Run("contains all files", func(t *testing.T) {
		want := []string{
			"SHA256SUMS", "crds.yaml", "images.txt", "install.yaml", "krew.yaml", archive, "realmkeeper-1.2.3-test.1.tgz", "realmkeeper-image.tar",
			archiveOf("realmkeeper-import"), "realmkeeper-linux-" + runtime.GOARCH + ".tar", archiveOf("realmkeeper-local"),
			"realmkeeper-token-agent-image.tar", "realmkeeper-token-agent-linux-" + runtime.GOARCH + ".tar", "release-notes.md", "sbom.cdx.json",
		}
		if diff := cmp.Diff(want, names(t, dir)); diff != "" {
			t.Error(diff)
		}
		if left := names(t, filepath.Dir(dir)); len(left) != 1 {
			t.Errorf("temporary files remain: %v", left)
		}
	})
	t.Run("checksums match", func(t *testing.T) {
		check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
		check.Dir = dir
		out, err := check.CombinedOutput()
		if err != nil || strings.Count(string(out), ": OK\n") != len(names(t, dir))-1 {
			t.Errorf("%v\n%s", err, out)
		}
	})
	for command, argument := range map[string]string{"kubectl-realmkeeper": "version", "realmkeeper-import": "--version", "realmkeeper-local": "--version"} {
		t.Run(command+" runs", func(t *testing.T) { testCommand(t, dir, command, argument) })
	}
	t.Run("krew manifest refers to the archive", func(t *testing.T) { testKrew(t, dir, archive) })
	t.Run("chart uses the published image", func(t *testing.T) { testChart(t, filepath.Join(dir, "realmkeeper-1.2.3-test.1.tgz")) })
	t.Run("manifests use the image in the layout", func(t *testing.T) { testManifests(t, dir) })
	t.Run("SBOM lists the programs and modules", func(t *testing.T) { testSBOM(t, dir) })
}

func archiveOf(command string) string { return command + "-linux-" + runtime.GOARCH + ".tar.gz" }

// testCommand checks that the archive of a command contains a program that prints its version.
func testCommand(t *testing.T, dir, command, argument string) {
	t.Helper()
	files := readArchive(t, filepath.Join(dir, archiveOf(command)))
	license, err := os.ReadFile("../../LICENSE")
	must(t, err)
	if len(files) != 2 || !bytes.Equal(files["LICENSE"], license) {
		t.Errorf("%d files", len(files))
	}
	program := filepath.Join(t.TempDir(), command)
	must(t, os.WriteFile(program, files[command], 0o700))
	out, err := exec.Command(program, argument).CombinedOutput()
	if err != nil || !strings.Contains(string(out), version) {
		t.Errorf("%v\n%s", err, out)
	}
}

func testKrew(t *testing.T, dir, archive string) {
	t.Helper()
	var manifest struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version   string
			Platforms []struct{ URI, SHA256, Bin string }
		}
	}
	must(t, yaml.Unmarshal(read(t, dir, "krew.yaml"), &manifest))
	if manifest.Metadata.Name != "realmkeeper" || manifest.Spec.Version != version || len(manifest.Spec.Platforms) != 1 {
		t.Fatalf("%+v", manifest)
	}
	platform := manifest.Spec.Platforms[0]
	if want := fmt.Sprintf("%x", sha256.Sum256(read(t, dir, archive))); platform.SHA256 != want {
		t.Errorf("checksum %s, want %s", platform.SHA256, want)
	}
	if want := "https://github.com/realmkeeper/realmkeeper/releases/download/" + version + "/" + archive; platform.URI != want {
		t.Errorf("URI %s, want %s", platform.URI, want)
	}
}

func testChart(t *testing.T, path string) {
	t.Helper()
	var chart struct{ Version, AppVersion string }
	var values struct {
		Image struct{ Repository, Tag string }
	}
	files := readArchive(t, path)
	must(t, yaml.Unmarshal(files["realmkeeper/Chart.yaml"], &chart))
	must(t, yaml.Unmarshal(files["realmkeeper/values.yaml"], &values))
	if chart.Version != "1.2.3-test.1" || chart.AppVersion != version {
		t.Errorf("%+v", chart)
	}
	if values.Image.Repository != "registry.example/team/realmkeeper" || values.Image.Tag != "" {
		t.Errorf("%+v", values)
	}
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	must(t, err)
	for r := tar.NewReader(compressed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if header.ModTime.Unix() != created {
			t.Errorf("%s has the timestamp %s", header.Name, header.ModTime)
		}
	}
}

func testManifests(t *testing.T, dir string) {
	t.Helper()
	reference, agent := imageReference(t, dir, "realmkeeper"), imageReference(t, dir, "realmkeeper-token-agent")
	if images := string(read(t, dir, "images.txt")); images != reference+"\n"+agent+"\n" {
		t.Errorf("images.txt contains %q, want %q and %q", images, reference, agent)
	}
	image := "image: " + reference
	install := string(read(t, dir, "install.yaml"))
	for text, want := range map[string]int{
		image:                                    1,
		"image: ":                                1,
		"instanceDomain: " + release.Placeholder: 1,
		"name: realmkeeper-config\n":             2, // the ConfigMap and the volume
		"kind: CustomResourceDefinition":         3,
		"kind: ValidatingAdmissionPolicy\n":      4,
		"name: realmkeeper-system-records\n":     1,
		"kind: Deployment":                       1,
	} {
		if got := strings.Count(install, text); got != want {
			t.Errorf("install.yaml contains %q %d times, want %d", text, got, want)
		}
	}
	created, used := strings.LastIndex(install, "\nkind: Namespace\n"), strings.Index(install, "\n  namespace: ")
	if created < 0 || used < created {
		t.Error("install.yaml uses namespaces before it creates them")
	}
	if crds := string(read(t, dir, "crds.yaml")); strings.Count(crds, "\nkind: ") != 3 {
		t.Errorf("crds.yaml contains %d objects, want 3", strings.Count(crds, "\nkind: "))
	}
}

// imageReference returns the name of a published image with the digest in its layout.
func imageReference(t *testing.T, dir, name string) string {
	t.Helper()
	unpacked := t.TempDir()
	if out, err := exec.Command("tar", "-C", unpacked, "-xf", filepath.Join(dir, name+"-image.tar")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	index, err := layout.ImageIndexFromPath(unpacked)
	must(t, err)
	must(t, validate.Index(index))
	manifest, err := index.IndexManifest()
	must(t, err)
	return "registry.example/team/" + name + ":" + version + "@" + manifest.Manifests[0].Digest.String()
}

func testSBOM(t *testing.T, dir string) {
	t.Helper()
	content := read(t, dir, "sbom.cdx.json")
	validateSBOM(t, content)
	bom := new(cdx.BOM)
	must(t, cdx.NewBOMDecoder(bytes.NewReader(content), cdx.BOMFileFormatJSON).Decode(bom))
	if bom.Metadata.Timestamp != "2025-06-15T15:06:40Z" {
		t.Errorf("timestamp %s", bom.Metadata.Timestamp)
	}
	components := map[string]cdx.Component{}
	programs := map[string]int{}
	for _, component := range *bom.Components {
		components[component.BOMRef] = component
		if component.Type == cdx.ComponentTypeApplication {
			programs[component.Name]++
		} else if component.Licenses == nil {
			t.Errorf("%s has no license", component.BOMRef)
		}
	}
	want := map[string]int{"operator": 1, "token-server": 1, "portal": 1, "kubectl-realmkeeper": 2, "realmkeeper-import": 1, "realmkeeper-local": 1, "token-agent": 1}
	if diff := cmp.Diff(want, programs); diff != "" {
		t.Error(diff)
	}
	stdlib := "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go")
	for _, dependencies := range *bom.Dependencies {
		if dependencies.Ref == bom.Metadata.Component.BOMRef {
			continue
		}
		uses := " " + strings.Join(*dependencies.Dependencies, " ") + " "
		if !strings.Contains(uses, " "+stdlib+" ") {
			t.Errorf("%s does not use %s", dependencies.Ref, stdlib)
		}
		for _, use := range *dependencies.Dependencies {
			if _, ok := components[use]; !ok {
				t.Errorf("%s uses %s, which is not a component", dependencies.Ref, use)
			}
		}
		if strings.HasSuffix(dependencies.Ref, "/portal") && !strings.Contains(uses, " pkg:npm/htmx.org@") {
			t.Error("the portal does not use htmx.org")
		}
		if strings.HasSuffix(dependencies.Ref, "/operator") && !strings.Contains(uses, " pkg:golang/k8s.io/client-go@") {
			t.Error("the operator does not use client-go")
		}
	}
}

// validateSBOM validates an SBOM with the schema of CycloneDX.
func validateSBOM(t *testing.T, content []byte) {
	t.Helper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	must(t, err)
	compiler := jsonschema.NewCompiler()
	for url, file := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		schema, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), "schema", file))
		must(t, err)
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
		must(t, err)
		must(t, compiler.AddResource("http://cyclonedx.org/schema/"+url, document))
	}
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	must(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	must(t, err)
	if err := schema.Validate(document); err != nil {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	program := buildProgram(t)
	source := t.TempDir()
	must(t, os.WriteFile(filepath.Join(source, "CHANGELOG.md"), []byte("## [Unreleased]\n"), 0o600))
	tests := map[string]struct {
		flags []string
		want  string
	}{
		"no version":   {want: "VERSION must be a semantic version that starts with v"},
		"no tree":      {[]string{"--version=v1.2.3"}, "not a git repository"},
		"no notes":     {[]string{"--version=v1.2.3", "--snapshot"}, "add a section [1.2.3] with at least one list item"},
		"bad platform": {[]string{"--version=v1.2.3", "--only=linux"}, "--only must be a platform of the commands"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			command := exec.Command(program, append(test.flags, "--source="+source)...)
			command.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(source))
			out, err := command.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), test.want) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	if left := names(t, source); len(left) != 1 {
		t.Errorf("temporary files remain: %v", left)
	}
}

// TestFailureKeepsRelease checks that an earlier release stays if a build fails.
func TestFailureKeepsRelease(t *testing.T) {
	program := buildProgram(t)
	dir := filepath.Join(t.TempDir(), "release")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "old"), nil, 0o600))
	out, err := exec.Command(program, "--source=../..", "--output="+dir, "--version="+version, "--snapshot",
		"--only=linux/amd64", "--ldflags=-nonsense").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "build the images") {
		t.Errorf("%v\n%s", err, out)
	}
	if diff := cmp.Diff([]string{"old"}, names(t, dir)); diff != "" {
		t.Error(diff)
	}
	if left := names(t, filepath.Dir(dir)); len(left) != 1 {
		t.Errorf("temporary files remain: %v", left)
	}
}

func buildProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "release")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	must(t, err)
	for _, file := range files {
		names = append(names, file.Name())
	}
	return names
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	return content
}

// readArchive returns the files in a compressed tar archive.
func readArchive(t *testing.T, path string) map[string][]byte {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	must(t, err)
	files := map[string][]byte{}
	for r := tar.NewReader(compressed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must(t, err)
		files[header.Name], err = io.ReadAll(r)
		must(t, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
