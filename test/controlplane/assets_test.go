package controlplane_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

const (
	etcd      = "etcd"
	apiServer = "kube-apiserver"
	kubectl   = "kubectl"
)

// buildLine matches what BinDir prints before it builds a program.
var buildLine = regexp.MustCompile(`(?m)^Building (\S+ v\d+\.\d+)\.\S+ from source`)

// The programs in KUBEBUILDER_ASSETS are used, or an error says what to do. They are never built instead.
func TestAssets(t *testing.T) {
	const tooOld, tooNew = "1.30.0", "1.99.0"
	oldest, newest := version.OldestKubernetes+".0", version.NewestKubernetes+".0"
	tests := map[string]struct {
		// versions are those of the programs in KUBEBUILDER_ASSETS. A program without one exits with an error.
		versions      map[string]string
		notExecutable string
		relative      bool
		kubernetes    string

		wantUsed  string
		wantError string
		wantBuilt []string
	}{
		"oldest supported version": {
			versions:  map[string]string{etcd: "3.6.4", apiServer: oldest, kubectl: oldest},
			wantUsed:  "etcd 3.6.4, kube-apiserver " + oldest + ", and kubectl " + oldest,
			wantBuilt: []string{"kube-controller-manager v" + version.OldestKubernetes},
		},
		"newest supported version in a relative directory": {
			versions:  map[string]string{etcd: "3.7.0", apiServer: newest, kubectl: newest},
			relative:  true,
			wantUsed:  "etcd 3.7.0, kube-apiserver " + newest + ", and kubectl " + newest,
			wantBuilt: []string{"kube-controller-manager v" + version.NewestKubernetes},
		},
		"version of KUBERNETES": {
			versions:   map[string]string{etcd: "3.6.4", apiServer: oldest, kubectl: oldest},
			kubernetes: version.OldestKubernetes,
			wantUsed:   "kube-apiserver " + oldest,
			wantBuilt:  []string{"kube-controller-manager v" + version.OldestKubernetes},
		},
		"other version than KUBERNETES": {
			versions:   map[string]string{etcd: "3.6.4", apiServer: oldest, kubectl: oldest},
			kubernetes: version.NewestKubernetes,
			wantError:  "kube-apiserver has version " + oldest + ", but KUBERNETES is " + version.NewestKubernetes + "; unset KUBERNETES, or set",
		},
		"older version": {
			versions:  map[string]string{etcd: "3.6.4", apiServer: tooOld, kubectl: tooOld},
			wantError: "kube-apiserver has version " + tooOld + ", but the supported ones are " + version.OldestKubernetes,
		},
		"newer version": {
			versions:  map[string]string{etcd: "3.6.4", apiServer: tooNew, kubectl: tooNew},
			wantError: "kube-apiserver has version " + tooNew + ", but the supported ones are " + version.OldestKubernetes,
		},
		"older etcd": {
			versions:  map[string]string{etcd: "3.5.21", apiServer: newest, kubectl: newest},
			wantError: "etcd has version 3.5.21, which is older than 3.6.0",
		},
		"kubectl of another version": {
			versions:  map[string]string{etcd: "3.6.4", apiServer: newest, kubectl: tooOld},
			wantError: "kubectl has version " + tooOld + ", which differs by more than one minor version from kube-apiserver " + newest,
		},
		"missing program": {
			versions:  map[string]string{etcd: "3.6.4", apiServer: newest},
			wantError: "does not contain kubectl",
		},
		"program that is not executable": {
			versions:      map[string]string{etcd: "3.6.4", apiServer: newest, kubectl: newest},
			notExecutable: etcd,
			wantError:     "etcd is not an executable file",
		},
		"program that fails": {
			versions:  map[string]string{etcd: "3.6.4", apiServer: "", kubectl: newest},
			wantError: "kube-apiserver does not print its version",
		},
		"empty directory": {
			wantError: "does not contain etcd",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			assets := t.TempDir()
			for program, version := range tt.versions {
				script := "#!/bin/sh\nexit 1\n"
				if version != "" {
					script = fmt.Sprintf("#!/bin/sh\necho Version: v%s; echo Kustomize Version: v5.0.0\n", version)
				}
				writeScript(t, filepath.Join(assets, program), script)
			}
			if tt.notExecutable != "" {
				g.Expect(os.Chmod(filepath.Join(assets, tt.notExecutable), 0o600)).To(Succeed())
			}
			root, err := controlplane.RepositoryRoot()
			g.Expect(err).NotTo(HaveOccurred())
			setting := assets
			if tt.relative {
				setting, err = filepath.Rel(root, assets)
				g.Expect(err).NotTo(HaveOccurred())
			}
			t.Setenv("KUBEBUILDER_ASSETS", setting)
			t.Setenv("KUBERNETES", tt.kubernetes)
			emptyCache(t)

			progress := &strings.Builder{}
			dir, err := controlplane.BinDir(t.Context(), progress)

			output := progress.String()
			var built []string
			for _, line := range buildLine.FindAllStringSubmatch(output, -1) {
				built = append(built, line[1])
			}
			g.Expect(built).To(Equal(tt.wantBuilt), output)
			if tt.wantError != "" {
				g.Expect(err).To(HaveOccurred())
				g.Expect(output).To(And(ContainSubstring(tt.wantError), ContainSubstring("setup-envtest use "), HaveSuffix("or unset it\n")))
				return
			}
			g.Expect(err).NotTo(HaveOccurred(), output)
			g.Expect(strings.Count(output, "Using ")).To(Equal(1))
			g.Expect(output).To(ContainSubstring(tt.wantUsed))
			g.Expect(output).To(ContainSubstring("from KUBEBUILDER_ASSETS (" + assets + ")"))
			for program, version := range tt.versions {
				g.Expect(os.ReadFile(filepath.Join(dir, program))).To(ContainSubstring(version))
			}
		})
	}
}

// emptyCache hides the built programs, and replaces go with a script that builds empty ones.
func emptyCache(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	writeScript(t, filepath.Join(dir, "go"), `#!/bin/sh
while [ $# -gt 0 ]; do
	[ "$1" != -o ] || { : >"$2"; chmod +x "$2"; }
	shift
done
`)
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

func writeScript(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}
