package controlplane_test

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"

	"github.com/realmkeeper/realmkeeper/internal/kubeversion"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

func TestBinDirPrefersKubebuilderAssets(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("KUBEBUILDER_ASSETS", "")
	built := binDir(t)
	// Use a separate cache with the same binaries, so that the test adds no links to the real one.
	cache := t.TempDir()
	g.Expect(os.Mkdir(filepath.Join(cache, "realmkeeper"), 0o700)).To(Succeed())
	modules, err := filepath.Glob(filepath.Join(filepath.Dir(built), "*", "bin"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, bin := range modules {
		module := filepath.Dir(bin)
		g.Expect(os.Symlink(module, filepath.Join(cache, "realmkeeper", filepath.Base(module)))).To(Succeed())
	}
	t.Setenv("XDG_CACHE_HOME", cache)
	own := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(own, "etcd"), []byte("#!/bin/sh\n"), 0o700)).To(Succeed())
	t.Setenv("KUBEBUILDER_ASSETS", own)

	mixed := binDir(t)
	g.Expect(filepath.EvalSymlinks(filepath.Join(mixed, "etcd"))).To(Equal(filepath.Join(own, "etcd")))
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kubectl"} {
		g.Expect(sameFile(t, filepath.Join(mixed, name), filepath.Join(built, name))).To(BeTrue(), name)
	}

	t.Setenv("KUBEBUILDER_ASSETS", filepath.Join(own, "missing"))
	var progress strings.Builder
	_, err = controlplane.BinDir(t.Context(), &progress)
	g.Expect(err).To(HaveOccurred())
	g.Expect(progress.String()).To(ContainSubstring("KUBEBUILDER_ASSETS"))
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	infoA, err := os.Stat(a)
	if err != nil {
		t.Fatal(err)
	}
	infoB, err := os.Stat(b)
	if err != nil {
		t.Fatal(err)
	}
	return os.SameFile(infoA, infoB)
}

func TestBinDirRejectsUnsupportedKubernetes(t *testing.T) {
	for _, minor := range []string{"1.1", "v1.36", "1.36.3", "../etcd", "."} {
		t.Setenv("KUBERNETES", minor)
		var progress strings.Builder
		if _, err := controlplane.BinDir(t.Context(), &progress); err == nil {
			t.Errorf("KUBERNETES=%s is accepted", minor)
		}
		if got := progress.String(); !strings.Contains(got, "KUBERNETES is "+minor+",") || !strings.Contains(got, kubeversion.Oldest) || !strings.Contains(got, kubeversion.Newest) {
			t.Errorf("KUBERNETES=%s: %q, want the supported versions", minor, got)
		}
	}
}

// The version of the control plane is that of KUBERNETES, by default the newest.
func TestVersion(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("KUBEBUILDER_ASSETS", "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := controlplane.Start(ctx, controlplane.Options{Dir: t.TempDir(), BinDir: binDir(t)})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(c.Stop()).To(Succeed()) })
	clients, err := kubernetes.NewForConfig(c.RESTConfig())
	g.Expect(err).NotTo(HaveOccurred())
	version, err := clients.Discovery().ServerVersion()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(version.GitVersion).To(HavePrefix("v" + cmp.Or(os.Getenv("KUBERNETES"), kubeversion.Newest) + "."))
}

func binDir(t *testing.T) string {
	t.Helper()
	dir, err := controlplane.BinDir(t.Context(), os.Stderr, "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
