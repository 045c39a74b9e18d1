package controlplane_test

import (
	"cmp"
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"

	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

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
	server, err := clients.Discovery().ServerVersion()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(server.GitVersion).To(HavePrefix("v" + cmp.Or(os.Getenv("KUBERNETES"), version.NewestKubernetes) + "."))
}

func binDir(t *testing.T) string {
	t.Helper()
	dir, err := controlplane.BinDir(t.Context(), os.Stderr, "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
