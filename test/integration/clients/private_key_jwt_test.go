package clients_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// keyHolder is a workload with its own private key.
type keyHolder struct {
	id  string
	key *ecdsa.PrivateKey
}

func newKeyHolder(t *testing.T, id string) keyHolder {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return keyHolder{id, key}
}

// public returns the public key as encoded by a third-party library.
func (h keyHolder) public(t *testing.T) v1beta1.PublicKey {
	t.Helper()
	data, err := json.Marshal(jose.JSONWebKey{Key: h.key.Public(), KeyID: h.id, Algorithm: string(jose.ES256), Use: "sig"})
	if err != nil {
		t.Fatal(err)
	}
	return v1beta1.PublicKey{KeyID: h.id, JWK: v1beta1.JSONWebKey(data)}
}

// sign returns an assertion that a third-party library created.
func (h keyHolder) sign(t *testing.T, c *v1beta1.ApiClient) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: h.key, KeyID: h.id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: c.Status.ClientID, Subject: c.Status.ClientID, Audience: jwt.Audience{strings.TrimSuffix(c.Status.TokenEndpoint, oauth.TokenPath)},
		ID: rand.Text(), IssuedAt: jwt.NewNumericDate(time.Now()), Expiry: jwt.NewNumericDate(time.Now().Add(time.Minute)),
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// awaitGrants waits until every token server accepts the key holder's assertions or, if granted is
// false, rejects them.
func (h keyHolder) awaitGrants(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient, granted bool) {
	t.Helper()
	for _, s := range inst.Servers() {
		httpClient := s.Client(t)
		install.Eventually(t, s.Name+" to respond to "+h.id, func() error {
			a, err := install.RequestTokenByAssertion(t, s, httpClient, c.Status.TokenEndpoint, "", h.sign(t, c))
			switch {
			case err != nil:
				return err
			case granted && a.AccessToken == "", !granted && a.Error != "invalid_client":
				return fmt.Errorf("the response is %d %s: %s", a.Status, a.Error, a.Description)
			}
			return nil
		})
	}
}

// A client with a public key gets tokens with signed assertions and has no secret. Each key is
// valid as long as it is in the spec.
func testPrivateKeyJWT(t *testing.T, inst *install.Installation) {
	cluster := inst.Env
	old, next := newKeyHolder(t, "old"), newKeyHolder(t, "next")
	c := install.ApiClient(cluster.Namespace(t), "billing", "jwt", func(c *v1beta1.ApiClient) {
		c.Spec.PublicKeys = []v1beta1.PublicKey{old.public(t)}
	})
	inst.Create(t, install.Realm("jwt"), c)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	if c.Status.SecretName != "" || len(c.Status.Secrets()) != 0 {
		t.Errorf("status has secretName %q and secrets %v, want none", c.Status.SecretName, c.Status.Secrets())
	}
	for _, s := range inst.Servers() { // Ready means that all token servers accept the key
		a, err := install.RequestTokenByAssertion(t, s, s.Client(t), c.Status.TokenEndpoint, c.Status.ClientID, old.sign(t, c))
		if err != nil || a.AccessToken == "" {
			t.Errorf("%s did not issue a token: %+v, %v", s.Name, a, err)
		}
	}
	secrets := &corev1.SecretList{}
	if err := cluster.Client.List(t.Context(), secrets, client.InNamespace(c.Namespace)); err != nil || len(secrets.Items) != 0 {
		t.Errorf("the namespace contains %d Secrets, want none: %v", len(secrets.Items), err)
	}

	next.awaitGrants(t, inst, c, false)
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.PublicKeys = append(c.Spec.PublicKeys, next.public(t)) })
	next.awaitGrants(t, inst, c, true)
	old.awaitGrants(t, inst, c, true)
	for _, h := range []keyHolder{old, next} { // without kid, both keys are tried
		keyHolder{key: h.key}.awaitGrants(t, inst, c, true)
	}
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.PublicKeys = c.Spec.PublicKeys[1:] })
	old.awaitGrants(t, inst, c, false)
	next.awaitGrants(t, inst, c, true)

	broken := next.public(t)
	broken.KeyID = "other" // differs from the kid in the JWK
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.PublicKeys = []v1beta1.PublicKey{broken} })
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonPublicKeyNotSupported)
	scenario.ExpectMessage(t, c, v1beta1.ConditionStalled, `"other"`, "spec.publicKeys", "its kid differs from keyID")
	next.awaitGrants(t, inst, c, false)
}
