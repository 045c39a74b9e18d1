package install

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// Portal is a running portal.
type Portal struct {
	// URL is its address, without a path.
	URL string

	dir        string
	name       string
	operations string // address
	process    *process.Process
}

// StartPortal starts a portal with the given additional flags and waits until it responds. All
// portals of an installation share the session key.
func (i *Installation) StartPortal(t testing.TB, flags ...string) *Portal {
	t.Helper()
	return i.startPortal(t, func(string) []string { return flags })
}

// startPortal starts a portal with additional flags, which may depend on its URL.
func (i *Installation) startPortal(t testing.TB, flags func(url string) []string) *Portal {
	t.Helper()
	port, err := controlplane.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	operations, err := controlplane.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(operations.Release)
	// Browsers trust localhost, so Secure cookies work without TLS.
	p := &Portal{URL: fmt.Sprintf("http://localhost:%d", port.Number()), dir: i.dir, name: fmt.Sprintf("portal-%d", port.Number()), operations: operations.Address()}
	ca, key := filepath.Join(i.dir, "api-server.crt"), filepath.Join(i.dir, "session-key")
	writeFile(t, ca, i.Env.Config.CAData)
	if _, err := os.Stat(key); err != nil {
		writeFile(t, key, []byte(rand.Text()+rand.Text()))
	}
	p.process, err = process.Start(process.Command{
		Name: p.name, Path: Binary(t, i.Env, "portal"), Dir: i.dir,
		Args: append([]string{
			"--listen", port.Address(), "--operations-listen", p.operations, "--api-server", i.Env.Config.Host,
			"--api-server-ca-file", ca, "--session-key-file", key, "--debug",
		}, flags(p.URL)...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.stop(t) })
	Eventually(t, "the portal to respond", func() error {
		if err := p.process.Exited(); err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/sign-in", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
	return p
}

func (p *Portal) stop(t testing.TB) {
	if err := p.process.Stop(grace); err != nil {
		t.Errorf("Failed to stop the portal: %v", err)
	}
	if t.Failed() {
		t.Logf("Tail of the portal log:\n%s", p.process.LogTail())
	}
}

// Metrics returns the metrics page of the portal.
func (p *Portal) Metrics(t testing.TB) string {
	t.Helper()
	return metrics(t, "http://"+p.operations)
}

// Log returns the log of the portal.
func (p *Portal) Log(t testing.TB) []byte {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(p.dir, p.name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// ServiceAccount creates a service account and returns a token for it. The token is valid for one
// hour.
func (i *Installation) ServiceAccount(t testing.TB, namespace, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	i.Create(t, account)
	seconds := int64(time.Hour.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := i.Env.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatalf("Failed to request a token for %s: %v", account.Name, err)
	}
	return request.Status.Token
}

// ApplyFile applies a manifest from the repository, adapted to the installation's namespace.
func (i *Installation) ApplyFile(t testing.TB, path ...string) {
	t.Helper()
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	i.applyFile(t, filepath.Join(append([]string{root}, path...)...))
}

// Bind binds a ClusterRole to a subject until the test ends. If namespace is empty, the binding is
// cluster-wide.
func (i *Installation) Bind(t testing.TB, role, namespace string, subject rbacv1.Subject) {
	t.Helper()
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	meta := metav1.ObjectMeta{GenerateName: role + "-", Namespace: namespace}
	var binding client.Object = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{subject}}
	if namespace == "" {
		binding = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{subject}}
	}
	i.Create(t, binding)
	t.Cleanup(func() {
		ctx, stop := cleanUpContext()
		defer stop()
		if err := i.Env.Client.Delete(ctx, binding); client.IgnoreNotFound(err) != nil {
			t.Errorf("Failed to delete %T %s: %v", binding, types.NamespacedName{Namespace: namespace, Name: binding.GetName()}, err)
		}
	})
}

// StartProviderPortal starts a portal whose users sign in with an OpenID Connect issuer. The portal
// is a public client of the issuer.
func (i *Installation) StartProviderPortal(t testing.TB, issuer, clientID, authorityFile string, flags ...string) *Portal {
	t.Helper()
	return i.startPortal(t, func(url string) []string {
		return append([]string{"--public-url", url, "--oidc-issuer-url", issuer, "--oidc-client-id", clientID, "--oidc-ca-file", authorityFile}, flags...)
	})
}
