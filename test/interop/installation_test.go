package interop_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

const (
	// speedUp is the factor by which rotation is faster than in production.
	speedUp  = 600
	audience = "https://orders.acme.example"
	scope    = "orders.read"
	// otherAudience is an audience of the realm that the client from the samples doesn't have.
	otherAudience = "https://stock.acme.example"
)

// installation contains the realm and the client from the samples. All third-party programs share
// it.
type installation struct {
	cluster *env.Env
	inst    *install.Installation
	server  *install.TokenServer // nil for the local issuer
	realm   *v1beta1.Realm
	client  *v1beta1.ApiClient

	// The client's credentials and URLs.
	clientID, clientSecret, tokenURL, issuer string

	authority string  // the path of the CA certificate
	signer    *signer // a second client, which has no client secret
	// credentials is the credentials Secret of the client if the local issuer is used.
	credentials *corev1.Secret
	// gateway contains the credentials of a client that introspects the tokens of others.
	gateway *corev1.Secret
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	cluster := env.Start(t)
	i := &installation{cluster: cluster, inst: install.New(t, cluster, install.Settings{SpeedUp: speedUp})}
	i.inst.StartOperator(t, "")
	i.server = i.inst.StartTokenServer(t)
	i.realm = install.Realm("acme", func(r *v1beta1.Realm) {
		r.Spec.Audiences = []string{audience, otherAudience}
		r.Spec.Scopes = []string{scope, "orders.write"}
		r.Spec.Signing.PublishAhead = &v1beta1.Duration{Duration: 20 * time.Minute}
	})
	i.client = install.ApiClient(cluster.Namespace(t), "billing", i.realm.Name, func(c *v1beta1.ApiClient) {
		c.Spec.Scopes, c.Spec.Audiences = []string{scope}, []string{audience}
	})
	i.inst.Create(t, i.realm, i.client)
	credentials := i.awaitReady(t, i.client)
	i.clientID, i.clientSecret = string(credentials.Data["client_id"]), string(credentials.Data["client_secret"])
	i.tokenURL, i.issuer = string(credentials.Data["token_url"]), string(credentials.Data["issuer"])
	i.authority = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(i.authority, credentials.Data["ca.crt"], 0o600); err != nil {
		t.Fatal(err)
	}
	i.signer = i.newSigner(t)
	i.gateway = i.createClient(t, "gateway", func(c *v1beta1.ApiClient) {
		c.Spec.Introspection.Audiences = v1beta1.Audiences{audience, otherAudience}
	})
	return i
}

func (i *installation) awaitReady(t *testing.T, c *v1beta1.ApiClient) *corev1.Secret {
	t.Helper()
	i.inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	return i.inst.CredentialsSecret(t, c)
}

// token requests a token as the documentation describes.
func (i *installation) token(t *testing.T) string {
	t.Helper()
	if i.server == nil {
		return i.tokenOf(t, i.credentials)
	}
	return i.tokenOf(t, i.inst.CredentialsSecret(t, i.client))
}

func (i *installation) tokenOf(t *testing.T, credentials *corev1.Secret) string {
	t.Helper()
	if i.server == nil {
		return goToken(context.WithValue(t.Context(), oauth2.HTTPClient, i.httpClient(t)), t, credentials).AccessToken
	}
	response, err := install.RequestToken(t, i.server, i.server.Client(t), credentials)
	if err != nil || response.AccessToken == "" {
		t.Fatalf("no token: %+v, %v", response, err)
	}
	return response.AccessToken
}

// tokenOfRealm creates a realm with the same scopes and audiences, and returns a token for a client
// in it. The client's ApiClient has the same name but is in a different namespace.
func (i *installation) tokenOfRealm(t *testing.T, name string) string {
	t.Helper()
	other := install.Realm(name, func(r *v1beta1.Realm) { r.Spec.Scopes, r.Spec.Audiences = i.realm.Spec.Scopes, i.realm.Spec.Audiences })
	c := install.ApiClient(i.cluster.Namespace(t), i.client.Name, other.Name, func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{scope} })
	i.inst.Create(t, other, c)
	return i.tokenOf(t, i.awaitReady(t, c))
}

// httpClient returns an HTTP client that trusts the installation's certificate authority.
func (i *installation) httpClient(t *testing.T) *http.Client {
	t.Helper()
	if i.server != nil {
		return i.server.Client(t)
	}
	certificate, err := os.ReadFile(i.authority)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// createClient creates a new client in the realm with the given changes and returns its credentials
// Secret.
func (i *installation) createClient(t *testing.T, name string, change func(*v1beta1.ApiClient)) *corev1.Secret {
	t.Helper()
	c := install.ApiClient(i.client.Namespace, name, i.realm.Name, change)
	i.inst.Create(t, c)
	return i.awaitReady(t, c)
}

var (
	errStatus   = errors.New("unexpected status")
	errSameKey  = errors.New("token is still signed with the same key")
	errOtherKey = errors.New("token is signed with a different key")
)

// rotate rotates the realm's signing key and returns once the new key signs tokens.
func (i *installation) rotate(t *testing.T) {
	t.Helper()
	var before v1beta1.SigningKeyStatus
	install.Eventually(t, "the realm's status to report the active key", func() error {
		before = i.activeKey(t)
		if id := i.keyID(t, i.token(t)); id != before.KeyID {
			return fmt.Errorf("%w: %s, want %s", errOtherKey, id, before.KeyID)
		}
		return nil
	})
	install.Change(t, i.inst, i.realm, func(r *v1beta1.Realm) {
		r.Spec.Signing.RotationRequestTime = &metav1.Time{Time: before.CreationTime.Add(time.Second)}
	})
	install.Eventually(t, "the next key to sign tokens", func() error {
		if id := i.keyID(t, i.token(t)); id == before.KeyID {
			return fmt.Errorf("%w: %s", errSameKey, id)
		}
		return nil
	})
}

// keyID returns the ID of the key that signed a token.
func (i *installation) keyID(t *testing.T, token string) string {
	t.Helper()
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Headers[0].KeyID
}

// activeKey returns the active key from the realm's status.
func (i *installation) activeKey(t *testing.T) v1beta1.SigningKeyStatus {
	t.Helper()
	if err := i.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(i.realm), i.realm); err != nil {
		t.Fatal(err)
	}
	for _, key := range i.realm.Status.SigningKeys {
		if key.State == v1beta1.SigningKeyActive {
			return key
		}
	}
	t.Fatal("the realm's status has no active key")
	return v1beta1.SigningKeyStatus{}
}
