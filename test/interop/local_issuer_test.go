package interop_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/tools/localissuer"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

const namespace = "acme-apps"

// TestLocalIssuer runs third-party programs against the local issuer.
func TestLocalIssuer(t *testing.T) {
	i := newLocalInstallation(t)
	for _, party := range []struct {
		name string
		test func(*testing.T, *installation)
	}{
		{"x/oauth2 with a client assertion", testGoAssertion},
		{"openid-client", testOpenIDClient},
		{"aws-jwt-verify", testAWSJWTVerify},
		{"token URLs with a query", testTokenURLWithQuery},
		{"documented curl commands", testDocumentedCurl},
	} {
		t.Run(party.name, func(t *testing.T) { party.test(t, i) })
	}
}

// newLocalInstallation starts a local issuer for the objects that the third-party programs need.
func newLocalInstallation(t *testing.T) *installation {
	t.Helper()
	key, public := newKey(t)
	i := &installation{}
	i.realm = install.Realm("acme", func(r *v1beta1.Realm) {
		r.Spec.Audiences, r.Spec.Scopes = []string{audience, otherAudience}, []string{scope, "orders.write"}
	})
	i.client = install.ApiClient(namespace, "billing", i.realm.Name, func(c *v1beta1.ApiClient) {
		c.Spec.Scopes, c.Spec.Audiences = []string{scope}, []string{audience}
	})
	objects := []any{
		i.realm, i.client,
		install.ApiClient(namespace, "ledger", i.realm.Name, func(c *v1beta1.ApiClient) {
			c.Spec.Scopes, c.Spec.PublicKeys = []string{scope}, []v1beta1.PublicKey{public}
		}),
		install.ApiClient(namespace, "gateway", i.realm.Name, func(c *v1beta1.ApiClient) {
			c.Spec.Introspection.Audiences = v1beta1.Audiences{audience, otherAudience}
		}),
	}
	i.serve(t, objects)
	i.credentials, i.gateway = i.readCredentials(t, "billing"), i.readCredentials(t, "gateway")
	i.clientID, i.clientSecret = string(i.credentials.Data["client_id"]), string(i.credentials.Data["client_secret"])
	i.tokenURL, i.issuer = string(i.credentials.Data["token_url"]), string(i.credentials.Data["issuer"])
	i.signer = &signer{id: namespace + ".ledger", issuer: i.issuer, key: key}
	return i
}

// serve runs the local issuer for objects until the end of the test.
func (i *installation) serve(t *testing.T, objects []any) {
	t.Helper()
	var file bytes.Buffer
	for _, object := range objects {
		kind := "ApiClient"
		if _, ok := object.(*v1beta1.Realm); ok {
			kind = "Realm"
		}
		content, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		file.WriteString("---\napiVersion: " + v1beta1.GroupVersion.String() + "\nkind: " + kind + "\n")
		file.Write(content)
	}
	dir, credentials := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "objects.yaml"), file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	i.authority = filepath.Join(credentials, "ca.crt")
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	output := &lockedBuffer{}
	running.Go(func() {
		err := localissuer.Run(ctx, localissuer.Options{
			Files: localissuer.Files{Names: []string{dir}}, CredentialsDir: credentials, Out: output, ErrOut: output,
		})
		if err != nil {
			t.Errorf("the local issuer failed: %v\n%s", err, output)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	for deadline := time.Now().Add(time.Minute); !strings.Contains(output.String(), "Press Ctrl+C"); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the local issuer isn't ready:\n%s", output)
		}
	}
}

// readCredentials returns what the local issuer wrote for a client.
func (i *installation) readCredentials(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	dir := filepath.Join(filepath.Dir(i.authority), namespace, name)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{Data: map[string][]byte{}}
	for _, entry := range entries {
		if secret.Data[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return secret
}

// lockedBuffer is a buffer for concurrent use.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
