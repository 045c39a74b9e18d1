package localissuer_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
)

const (
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	platform      = "https://platform.example.com"
	password      = "correct horse battery staple"
)

// matrix is a local issuer with a client for each way to authenticate.
type matrix struct {
	*fixture
	client *http.Client
	issuer string
	key    *ecdsa.PrivateKey // of the client that signs assertions, and of the trusted issuer
}

func newMatrix(t *testing.T) *matrix {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	jwk, err := json.Marshal(jose.JSONWebKey{Key: key.Public(), KeyID: "k1", Algorithm: "ES256", Use: "sig"})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := clientsecret.HashArgon2id(password, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	trusting := strings.Replace(realm, "spec:\n", "spec:\n  trustedIssuers: [{name: platform, issuer: '"+platform+"', keys: {jwks: '{\"keys\":["+string(jwk)+"]}'}}]\n", 1)
	trusting = strings.Replace(trusting, `scopes: ["*"]}`, `scopes: ["*"], issuers: [platform]}`, 1)
	m := &matrix{key: key, fixture: newFixture(t, trusting+billing+
		client("hashed", "secret: {hashed: [{id: a, hash: '"+verifier.String()+"'}]}")+
		client("signer", "publicKeys: [{keyId: k1, jwk: '"+string(jwk)+"'}]")+
		client("job", "federatedIdentities: [{issuer: platform, subject: job-1}]")+
		client("expired", "expiresAt: '2020-01-01T00:00:00Z', secret: {hashed: [{id: a, hash: '"+verifier.String()+"'}]}")+
		client("proving", "senderConstraint: DPoP, secret: {hashed: [{id: a, hash: '"+verifier.String()+"'}]}"))}
	m.start()
	files := m.credentials("billing")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(files["ca.crt"]))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	m.client, m.issuer = &http.Client{Transport: transport}, files["issuer"]
	return m
}

// post sends a form and returns the status and the members of the response.
func (m *matrix) post(t *testing.T, path string, form url.Values) (int, map[string]any) {
	t.Helper()
	response, err := m.client.PostForm(m.issuer+path, form)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var members map[string]any
	if err := json.NewDecoder(response.Body).Decode(&members); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, members
}

// sign returns an assertion about a subject.
func (m *matrix) sign(t *testing.T, issuer, subject string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: m.key, KeyID: "k1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	assertion, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: issuer, Subject: subject, Audience: jwt.Audience{m.issuer}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(time.Now()), Expiry: jwt.NewNumericDate(time.Now().Add(time.Minute)),
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return assertion
}

// Each way to authenticate gets the same response as from a token server in a cluster.
func TestTokenMatrix(t *testing.T) {
	m := newMatrix(t)
	secretOf := func(id, secret string) url.Values { return url.Values{"client_id": {id}, "client_secret": {secret}} }
	asserted := func(assertion string) url.Values {
		return url.Values{"client_assertion_type": {assertionType}, "client_assertion": {assertion}}
	}
	generated := m.credentials("billing")["client_secret"]
	for name, test := range map[string]struct {
		form   url.Values
		status int
		error  string
	}{
		"generated secret":        {secretOf("apps.billing", generated), http.StatusOK, ""},
		"wrong secret":            {secretOf("apps.billing", generated+"x"), http.StatusUnauthorized, "invalid_client"},
		"unknown client":          {secretOf("apps.other", generated), http.StatusUnauthorized, "invalid_client"},
		"hashed secret":           {secretOf("apps.hashed", password), http.StatusOK, ""},
		"secret of an expired":    {secretOf("apps.expired", password), http.StatusUnauthorized, "invalid_client"},
		"signed assertion":        {asserted(m.sign(t, "apps.signer", "apps.signer")), http.StatusOK, ""},
		"assertion about another": {asserted(m.sign(t, "apps.billing", "apps.billing")), http.StatusUnauthorized, "invalid_client"},
		"trusted issuer":          {asserted(m.sign(t, platform, "job-1")), http.StatusOK, ""},
		"another subject":         {asserted(m.sign(t, platform, "job-2")), http.StatusBadRequest, "invalid_request"},
		"no DPoP proof":           {secretOf("apps.proving", password), http.StatusBadRequest, "invalid_dpop_proof"},
		"scope of another":        {url.Values{"client_id": {"apps.hashed"}, "client_secret": {password}, "scope": {"orders.read"}}, http.StatusBadRequest, "invalid_scope"},
	} {
		t.Run(name, func(t *testing.T) {
			test.form.Set("grant_type", "client_credentials")
			status, response := m.post(t, "/oauth2/token", test.form)
			if code, _ := response["error"].(string); status != test.status || code != test.error {
				t.Fatalf("status %d, response %v; want status %d, error %q", status, response, test.status, test.error)
			}
			if status != http.StatusOK {
				return
			}
			form := secretOf("apps.billing", generated)
			form.Set("token", response["access_token"].(string))
			if status, response = m.post(t, "/oauth2/introspect", form); status != http.StatusOK || response["active"] != (name == "generated secret") {
				t.Errorf("introspection: status %d, response %v; want only the client's own token to be active", status, response)
			}
		})
	}
}
