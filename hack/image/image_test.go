package main_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var created = time.Date(2025, 6, 15, 12, 0, 0, 0, time.UTC)

var labels = map[string]string{
	"org.opencontainers.image.title":       "Realmkeeper",
	"org.opencontainers.image.description": "OAuth 2.0 realms and API credentials as Kubernetes resources",
	"org.opencontainers.image.licenses":    "Apache-2.0",
	"org.opencontainers.image.version":     "v1.2.3",
	"org.opencontainers.image.revision":    "0123456789ab",
	"org.opencontainers.image.created":     "2025-06-15T12:00:00Z",
}

// agentLabels are those of the image of the token agent.
var agentLabels = map[string]string{
	"org.opencontainers.image.title":       "Realmkeeper token agent",
	"org.opencontainers.image.description": "Keeps a file with an OAuth 2.0 access token fresh",
	"org.opencontainers.image.licenses":    "Apache-2.0",
	"org.opencontainers.image.version":     "v1.2.3",
	"org.opencontainers.image.revision":    "0123456789ab",
	"org.opencontainers.image.created":     "2025-06-15T12:00:00Z",
}

// TestImage uses small commands instead of the product, which `make image` compiles.
func TestImage(t *testing.T) {
	first, second := newSource(t), newSource(t)
	build(t, first)
	build(t, second)
	build(t, second) // replaces the existing files

	t.Run("build in another directory is identical", func(t *testing.T) {
		one, other := digests(t, filepath.Join(first, "dist")), digests(t, filepath.Join(second, "dist"))
		if diff := cmp.Diff(one, other); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("product", func(t *testing.T) { testImage(t, first, "image", "realmkeeper", labels, "operator", "token-server") })
	t.Run("token agent", func(t *testing.T) {
		testImage(t, first, "token-agent-image", "realmkeeper-token-agent", agentLabels, "token-agent")
	})
}

// testImage tests the image in an OCI layout of dist/. The first command is its entrypoint.
func testImage(t *testing.T, source, dir, name string, labels map[string]string, commands ...string) {
	t.Helper()
	index, err := layout.ImageIndexFromPath(filepath.Join(source, "dist", dir))
	must(t, err)
	outer, err := index.IndexManifest()
	must(t, err)
	if len(outer.Manifests) != 1 || outer.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1.2.3" {
		t.Fatalf("entries of the layout: %+v", outer.Manifests)
	}
	index, err = index.ImageIndex(outer.Manifests[0].Digest)
	must(t, err)
	must(t, validate.Index(index)) // every digest, size and media type
	manifest, err := index.IndexManifest()
	must(t, err)
	if diff := cmp.Diff(labels, manifest.Annotations); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, entry := range manifest.Manifests {
		got = append(got, entry.Platform.String())
		if entry.ArtifactType != "" {
			t.Errorf("%s is an artifact: %s", entry.Platform, entry.ArtifactType)
		}
		image, err := index.Image(entry.Digest)
		must(t, err)
		arch := entry.Platform.Architecture
		t.Run(arch+" contains only the binaries", func(t *testing.T) { testContent(t, image, source, commands) })
		t.Run(arch+" has the expected configuration", func(t *testing.T) { testConfig(t, image, arch, commands[0], labels) })
		t.Run(arch+" is identical in its archive", func(t *testing.T) {
			testArchive(t, image, name+":v1.2.3", filepath.Join(source, "dist", name+"-linux-"+arch+".tar"))
		})
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, got); diff != "" {
		t.Error(diff)
	}
}

func testContent(t *testing.T, image v1.Image, source string, commands []string) {
	t.Helper()
	layers, err := image.Layers()
	must(t, err)
	if len(layers) != 1 {
		t.Fatalf("%d layers", len(layers))
	}
	content, err := layers[0].Uncompressed()
	must(t, err)
	var got []tar.Header
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		binary, err := io.ReadAll(r)
		must(t, err)
		if !bytes.Contains(binary, []byte("v1.2.3")) {
			t.Errorf("%s does not contain the version", header.Name)
		}
		if bytes.Contains(binary, []byte(source)) {
			t.Errorf("%s contains the source directory", header.Name)
		}
		header.Size = 0
		got = append(got, *header)
	}
	var want []tar.Header
	for _, command := range commands {
		want = append(want, tar.Header{Typeflag: tar.TypeReg, Format: tar.FormatUSTAR, Mode: 0o755, ModTime: created, Name: command})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func testConfig(t *testing.T, image v1.Image, arch, entrypoint string, labels map[string]string) {
	t.Helper()
	got, err := image.ConfigFile()
	must(t, err)
	want := &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: v1.Time{Time: created},
		Config:  v1.Config{User: "65532:65532", WorkingDir: "/", Entrypoint: []string{"/" + entrypoint}, Labels: labels},
		History: []v1.History{{Created: v1.Time{Time: created}, CreatedBy: "make image"}},
		RootFS:  got.RootFS,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// testArchive reads the archive like Docker and like containerd.
func testArchive(t *testing.T, want v1.Image, reference, path string) {
	t.Helper()
	tag, err := name.NewTag(reference)
	must(t, err)
	docker, err := tarball.ImageFromPath(path, &tag)
	must(t, err)
	must(t, validate.Image(docker))
	wantConfig, err := want.ConfigName()
	must(t, err)
	gotConfig, err := docker.ConfigName()
	must(t, err)
	if gotConfig != wantConfig {
		t.Errorf("config digest is %s, want %s", gotConfig, wantConfig)
	}

	dir := t.TempDir()
	if out, err := exec.Command("tar", "-C", dir, "-xf", path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	index, err := layout.ImageIndexFromPath(dir)
	must(t, err)
	must(t, validate.Index(index))
	manifest, err := index.IndexManifest()
	must(t, err)
	wantDigest, err := want.Digest()
	must(t, err)
	if got := manifest.Manifests; len(got) != 1 || got[0].Digest != wantDigest ||
		got[0].Annotations["io.containerd.image.name"] != "docker.io/library/"+reference {
		t.Errorf("OCI layout contains %+v, want digest %s", got, wantDigest)
	}
}

func TestErrors(t *testing.T) {
	tests := map[string]struct {
		flags      []string
		wantStderr string
	}{
		"no version":      {wantStderr: `--version is not a valid tag: ""`},
		"invalid version": {flags: []string{"--version=v1+dirty"}, wantStderr: "--version is not a valid tag"},
		"other platform":  {flags: []string{"--version=v1", "--only=linux/riscv64"}, wantStderr: "--only must be one of [linux/amd64 linux/arm64]"},
		"dynamic linking": {flags: []string{"--version=v1", "--ldflags=-buildmode=pie"}, wantStderr: "not a static binary"},
		"compile error":   {flags: []string{"--version=v1", "--ldflags=-nonsense"}, wantStderr: "build for linux/amd64: go build"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			source := newSource(t)
			out, err := exec.Command(program, append(test.flags, "--source="+source)...).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), test.wantStderr) {
				t.Errorf("%v\n%s", err, out)
			}
			if left, _ := os.ReadDir(filepath.Join(source, "dist")); len(left) > 0 {
				t.Errorf("temporary files remain: %v", left)
			}
		})
	}
}

// TestArchive reads the archive like a container runtime. It doesn't run the image.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "hello")
	compile := exec.Command("go", "build", "-o", binary, ".")
	compile.Dir = filepath.Join(newSource(t), "cmd", "operator")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	archive := filepath.Join(dir, "hello.tar")
	for range 2 { // the second replaces the first
		out, err := exec.Command(program, "archive", "--image=hello:v1", "--output="+archive, binary).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "docker.io/library/hello:v1") {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	tag, err := name.NewTag("hello:v1")
	must(t, err)
	image, err := tarball.ImageFromPath(archive, &tag)
	must(t, err)
	must(t, validate.Image(image))
	config, err := image.ConfigFile()
	must(t, err)
	if diff := cmp.Diff([]string{"/hello"}, config.Config.Entrypoint); diff != "" {
		t.Error(diff)
	}
	if config.Architecture != runtime.GOARCH {
		t.Errorf("architecture %s", config.Architecture)
	}

	failures := map[string][]string{
		"--image must be NAME:TAG": {"--image=hello", "--output=" + archive, binary},
		"no binaries specified":    {"--image=hello:v1", "--output=" + archive},
		"check ":                   {"--image=hello:v1", "--output=" + archive, filepath.Join(dir, "missing")},
	}
	for want, args := range failures {
		out, err := exec.Command(program, append([]string{"archive"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, ".image-*"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("temporary files remain: %v", left)
	}
}

// program is the path of the compiled command.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "image")
	code := 1
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// newSource creates a repository with the commands operator, token-agent, token-server, and two that are in no image.
func newSource(t *testing.T) string {
	t.Helper()
	source := t.TempDir()
	must(t, os.WriteFile(filepath.Join(source, "go.mod"), []byte("module example.test/product\n\ngo 1.26.0\n"), 0o600))
	for _, command := range []string{"operator", "realmkeeper-import", "realmkeeper-local", "token-agent", "token-server"} {
		dir := filepath.Join(source, "cmd", command)
		must(t, os.MkdirAll(dir, 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "main.go"),
			[]byte("package main\n\nvar version string\n\nfunc main() { println(version) }\n"), 0o600))
	}
	return source
}

func build(t *testing.T, source string, flags ...string) {
	t.Helper()
	flags = append(flags, "--source="+source, "--version=v1.2.3", "--revision=0123456789ab",
		fmt.Sprint("--source-date-epoch=", created.Unix()), "--ldflags=-s -w -X main.version=v1.2.3")
	out, err := exec.Command(program, flags...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// digests returns the digests of all files in dir by path.
func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		relative, _ := filepath.Rel(dir, path)
		files[relative] = fmt.Sprintf("%x", sha256.Sum256(content))
		return err
	}))
	return files
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
