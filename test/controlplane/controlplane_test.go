package controlplane_test

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/internal/kubeversion"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

func start(t *testing.T, options controlplane.Options) (*controlplane.ControlPlane, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return controlplane.Start(ctx, options)
}

func TestDetachedRunsUntilStopped(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	c, err := start(t, controlplane.Options{Dir: dir, BinDir: binDir(t), Detach: true})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(controlplane.StopDetached(dir)).To(Succeed()) })
	g.Expect(filepath.Join(dir, "etcd.pid")).To(BeARegularFile())
	g.Expect(filepath.Join(dir, "kube-apiserver.pid")).To(BeARegularFile())

	_, err = start(t, controlplane.Options{Dir: dir, BinDir: binDir(t)})
	g.Expect(err).To(MatchError(ContainSubstring("another one is running in " + dir)))
	g.Expect(listNamespaces(t, c.RESTConfig())).To(Succeed())

	g.Expect(controlplane.StopDetached(dir)).To(Succeed())
	g.Expect(process.Running(dir, "etcd")).To(BeFalse())
	g.Expect(process.Running(dir, "kube-apiserver")).To(BeFalse())
	g.Expect(listNamespaces(t, c.RESTConfig())).NotTo(Succeed())
	g.Expect(controlplane.StopDetached(dir)).To(Succeed())
}

func TestRestartDetachedAPIServer(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	c, err := start(t, controlplane.Options{Dir: dir, BinDir: binDir(t), Detach: true})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(controlplane.StopDetached(dir)).To(Succeed()) })
	g.Expect(createNamespace(t, c.RESTConfig(), "kept")).To(Succeed())
	g.Expect(controlplane.StartDetachedAPIServer(t.Context(), dir)).To(Succeed()) // already running

	g.Expect(controlplane.StopDetachedAPIServer(dir)).To(Succeed())
	g.Expect(listNamespaces(t, c.RESTConfig())).NotTo(Succeed())
	g.Expect(process.Running(dir, "etcd")).To(BeTrue())

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g.Expect(controlplane.StartDetachedAPIServer(ctx, dir)).To(Succeed())
	g.Expect(createNamespace(t, c.RESTConfig(), "kept")).To(MatchError(ContainSubstring("already exists")))

	g.Expect(controlplane.StopDetached(dir)).To(Succeed())
	g.Expect(controlplane.StartDetachedAPIServer(ctx, dir)).To(MatchError(ContainSubstring("etcd is not running")))
}

func TestRequiresCredentials(t *testing.T) {
	g := NewWithT(t)
	c, err := start(t, controlplane.Options{Dir: t.TempDir(), BinDir: binDir(t)})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(c.Stop()).To(Succeed()) })

	anonymous := rest.AnonymousClientConfig(c.RESTConfig())
	g.Expect(listNamespaces(t, anonymous)).NotTo(Succeed())
	files, err := filepath.Glob(filepath.Join(filepath.Dir(c.Kubeconfig()), "*"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		info, err := os.Stat(file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(info.Mode().Perm()&0o077).To(BeZero(), file)
	}
}

// Tokens stay valid while their key is published, and no longer.
func TestServiceAccountKeyRotates(t *testing.T) {
	g := NewWithT(t)
	const issuer = "https://other.example.com"
	c, err := start(t, controlplane.Options{Dir: t.TempDir(), BinDir: binDir(t), ServiceAccountIssuer: issuer})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(c.Stop()).To(Succeed()) })
	before, err := controlplane.NewServiceAccountKey()
	g.Expect(err).NotTo(HaveOccurred())
	after, err := controlplane.NewServiceAccountKey()
	g.Expect(err).NotTo(HaveOccurred())
	use := func(keys ...[]byte) {
		g.Expect(c.SetServiceAccountKeys(keys...)).To(Succeed())
		g.Expect(c.StopAPIServer()).To(Succeed())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		g.Expect(c.StartAPIServer(ctx)).To(Succeed())
	}

	use(before)
	token := serviceAccountToken(t, c.RESTConfig())
	g.Expect(token.Issuer).To(Equal(issuer))
	g.Expect(review(t, c.RESTConfig(), token.raw)).To(BeTrue())
	use(after, before)
	g.Expect(review(t, c.RESTConfig(), token.raw)).To(BeTrue())
	g.Expect(serviceAccountToken(t, c.RESTConfig()).keyID).NotTo(Equal(token.keyID))
	use(after)
	g.Expect(review(t, c.RESTConfig(), token.raw)).To(BeFalse())
}

func TestEarlyExitReturnsLog(t *testing.T) {
	g := NewWithT(t)
	bin := t.TempDir()
	broken := []byte("#!/bin/sh\necho no space left on device\nexit 1\n")
	g.Expect(os.WriteFile(filepath.Join(bin, "etcd"), broken, 0o700)).To(Succeed())

	_, err := start(t, controlplane.Options{Dir: t.TempDir(), BinDir: bin})
	g.Expect(err).To(MatchError(And(ContainSubstring("etcd exited"), ContainSubstring("no space left on device"))))
}

func TestStartStopsWhenContextExpires(t *testing.T) {
	g := NewWithT(t)
	bin := t.TempDir()
	idle := []byte("#!/bin/sh\necho thinking\nexec sleep 600\n")
	g.Expect(os.WriteFile(filepath.Join(bin, "etcd"), idle, 0o700)).To(Succeed())

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := controlplane.Start(ctx, controlplane.Options{Dir: t.TempDir(), BinDir: bin})
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
	g.Expect(err).To(MatchError(ContainSubstring("thinking")))
}

func TestPortsAreReservedUntilReleased(t *testing.T) {
	g := NewWithT(t)
	seen := map[int]bool{}
	for range 50 {
		port, err := controlplane.ReservePort()
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(port.Release)
		g.Expect(seen).NotTo(HaveKey(port.Number()))
		seen[port.Number()] = true
	}
}

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
	c, err := start(t, controlplane.Options{Dir: t.TempDir(), BinDir: binDir(t)})
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

type parsedToken struct {
	jwt.Claims
	raw, keyID string
}

// serviceAccountToken requests a token for the API server.
func serviceAccountToken(t *testing.T, config *rest.Config) parsedToken {
	t.Helper()
	g := NewWithT(t)
	clients, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	accounts := clients.CoreV1().ServiceAccounts("default")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "workload"}}
	if _, err := accounts.Create(t.Context(), account, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		g.Expect(err).NotTo(HaveOccurred())
	}
	request, err := accounts.CreateToken(t.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	token := parsedToken{raw: request.Status.Token}
	parsed, err := jwt.ParseSigned(token.raw, []jose.SignatureAlgorithm{jose.ES256})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(parsed.UnsafeClaimsWithoutVerification(&token.Claims)).To(Succeed())
	token.keyID = parsed.Headers[0].KeyID
	return token
}

// review reports whether the API server accepts a token.
func review(t *testing.T, config *rest.Config, token string) bool {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err = clients.AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return review.Status.Authenticated
}

func createNamespace(t *testing.T, config *rest.Config, name string) error {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err = clients.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	return err
}

func listNamespaces(t *testing.T, config *rest.Config) error {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = clients.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	return err
}
