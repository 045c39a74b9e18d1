package interop_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

const (
	// speedUp is how many times faster than real time keys rotate.
	speedUp  = 600
	audience = "https://orders.acme.example"
	scope    = "orders.read"
)

// place is one installation with the realm and the client of the samples, which all strangers
// meet.
type place struct {
	env     *testenv.Env
	install *testinstall.Installation
	server  *testinstall.TokenServer
	realm   *v1alpha1.Realm
	client  *v1alpha1.ApiClient

	// What strangers are told.
	clientID, clientSecret, tokenURL, issuer string

	authority string  // the file with the CA
	signer    *signer // another client, which has no secret
}

func newPlace(t *testing.T) *place {
	t.Helper()
	env := testenv.Start(t)
	p := &place{env: env, install: testinstall.New(t, env, testinstall.Settings{SpeedUp: speedUp})}
	p.install.StartOperator(t, "")
	p.server = p.install.StartTokenServer(t)
	p.realm = testinstall.Realm("acme", func(r *v1alpha1.Realm) {
		r.Spec.Audiences = []string{audience}
		r.Spec.Scopes = []string{scope, "orders.write"}
		r.Spec.Signing.PublishAhead = &metav1.Duration{Duration: 20 * time.Minute}
	})
	p.client = testinstall.ApiClient(env.Namespace(t), "billing", p.realm.Name, func(c *v1alpha1.ApiClient) {
		c.Spec.Scopes = []string{scope}
	})
	p.install.Create(t, p.realm, p.client)
	consumer := p.ready(t, p.client)
	p.clientID, p.clientSecret = string(consumer.Data["client_id"]), string(consumer.Data["client_secret"])
	p.tokenURL, p.issuer = string(consumer.Data["token_url"]), string(consumer.Data["issuer"])
	p.authority = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(p.authority, consumer.Data["ca.crt"], 0o600); err != nil {
		t.Fatal(err)
	}
	p.signer = p.newSigner(t)
	return p
}

func (p *place) ready(t *testing.T, c *v1alpha1.ApiClient) *corev1.Secret {
	t.Helper()
	p.install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	return p.install.CredentialsSecret(t, c)
}

// token asks for a token in the documented way.
func (p *place) token(t *testing.T) string {
	t.Helper()
	return p.tokenOf(t, p.install.CredentialsSecret(t, p.client))
}

func (p *place) tokenOf(t *testing.T, consumer *corev1.Secret) string {
	t.Helper()
	answer, err := testinstall.RequestToken(t, p.server, p.server.Client(t), consumer)
	if err != nil || answer.AccessToken == "" {
		t.Fatalf("no token: %+v, %v", answer, err)
	}
	return answer.AccessToken
}

// another makes another client of the realm, as change has it.
func (p *place) another(t *testing.T, name string, change func(*v1alpha1.ApiClient)) *corev1.Secret {
	t.Helper()
	c := testinstall.ApiClient(p.client.Namespace, name, p.realm.Name, change)
	p.install.Create(t, c)
	return p.ready(t, c)
}

var (
	errAnswer   = errors.New("it answers")
	errSameKey  = errors.New("the same key signs")
	errOtherKey = errors.New("another key signs")
)

// rotate has the realm replace its signing key, and returns when tokens have the next one.
func (p *place) rotate(t *testing.T) {
	t.Helper()
	var before v1alpha1.SigningKeyStatus
	testinstall.Eventually(t, "status to know the key that signs", func() error {
		before = p.activeKey(t)
		if id := p.keyID(t, p.token(t)); id != before.KeyID {
			return fmt.Errorf("%w: %s, and not %s", errOtherKey, id, before.KeyID)
		}
		return nil
	})
	testinstall.Change(t, p.install, p.realm, func(r *v1alpha1.Realm) {
		r.Spec.Signing.RotateAfter = &metav1.Time{Time: before.CreatedAt.Add(time.Second)}
	})
	testinstall.Eventually(t, "another key to sign", func() error {
		if id := p.keyID(t, p.token(t)); id == before.KeyID {
			return fmt.Errorf("%w: %s", errSameKey, id)
		}
		return nil
	})
}

// keyID returns the id of the key that signed a token.
func (p *place) keyID(t *testing.T, token string) string {
	t.Helper()
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Headers[0].KeyID
}

// activeKey returns the key that signs, by the status of the realm.
func (p *place) activeKey(t *testing.T) v1alpha1.SigningKeyStatus {
	t.Helper()
	if err := p.env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.realm), p.realm); err != nil {
		t.Fatal(err)
	}
	for _, key := range p.realm.Status.SigningKeys {
		if key.State == v1alpha1.SigningKeyActive {
			return key
		}
	}
	t.Fatal("no key signs")
	return v1alpha1.SigningKeyStatus{}
}
