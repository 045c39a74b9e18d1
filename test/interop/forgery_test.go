package interop_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// What isn't a token of the realm, to the letter, is refused by those who ask: at verify, and
// at introspection, which tells nothing about it.
func testForgedTokens(t *testing.T, p *place) {
	good := p.token(t)
	asker := p.newAsker(t)
	if verify, introspection := asker.ask(t, good); verify != http.StatusOK || !strings.Contains(introspection, `"active":true`) {
		t.Fatalf("a good token: verify answers %d, introspection %s", verify, introspection)
	}
	refused := func(t *testing.T, forged string) {
		t.Helper()
		if verify, introspection := asker.ask(t, forged); verify != http.StatusUnauthorized || introspection != `{"active":false}` {
			t.Errorf("verify answers %d, introspection %s to %s", verify, introspection, forged)
		}
	}
	t.Run("one character another", func(t *testing.T) {
		for at := range good {
			other := "A"
			if good[at] == 'A' {
				other = "B"
			}
			refused(t, good[:at]+other+good[at+1:])
		}
	})
	for name, forged := range p.forgeries(t, good) {
		t.Run(name, func(t *testing.T) { refused(t, forged) })
	}
}

// forgeries are tokens with the claims of a good one that others signed, or the realm for
// another purpose.
func (p *place) forgeries(t *testing.T, good string) map[string]string {
	t.Helper()
	parsed, err := jwt.ParseSigned(good, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		t.Fatal(err)
	}
	id := parsed.Headers[0].KeyID
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	published := p.publishedKey(t, id)
	sign := func(algorithm jose.SignatureAlgorithm, key any, kid string, embed bool) string {
		options := &jose.SignerOptions{EmbedJWK: embed}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, options.WithType("at+jwt"))
		if err != nil {
			t.Fatal(err)
		}
		token, err := jwt.Signed(signer).Claims(claims).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	parts := strings.Split(good, ".")
	return map[string]string{
		"none":                          "eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0." + parts[1] + ".",
		"HMAC by the public key":        sign(jose.HS256, published, id, false),
		"the kid, by another key":       sign(jose.ES256, own, id, false),
		"a foreign kid":                 sign(jose.ES256, own, "own", false),
		"an embedded key":               sign(jose.ES256, own, "", true),
		"another realm's token":         p.tokenOfAnotherRealm(t),
		"an assertion of a client":      p.signer.assertion(t),
		"a token of Kubernetes":         p.serviceAccountToken(t),
		"without its signature":         parts[0] + "." + parts[1] + ".",
		"with the signature of another": parts[0] + "." + parts[1] + "." + strings.Split(p.token(t), ".")[2],
	}
}

// A token says who calls, and is nothing to authenticate with.
func testTokenAsAssertion(t *testing.T, p *place) {
	form := url.Values{
		"grant_type":            {"client_credentials"},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		"client_assertion":      {p.token(t)},
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.tokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if status, body := p.newAsker(t).do(t, request); status != http.StatusUnauthorized || !strings.Contains(body, `"invalid_client"`) {
		t.Errorf("answers %d %s", status, body)
	}
}

// publishedKey returns a key of the realm as verifiers get it, in DER.
func (p *place) publishedKey(t *testing.T, id string) []byte {
	t.Helper()
	answer, err := p.server.Client(t).Get(p.issuer + "/oauth2/jwks")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(answer.Body).Decode(&set); err != nil || len(set.Key(id)) != 1 {
		t.Fatalf("the keys %v: %v", set.Keys, err)
	}
	der, err := x509.MarshalPKIXPublicKey(set.Key(id)[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// tokenOfAnotherRealm has a client of the same id there as far as it can.
func (p *place) tokenOfAnotherRealm(t *testing.T) string {
	t.Helper()
	other := testinstall.Realm("other")
	c := testinstall.ApiClient(p.env.Namespace(t), p.client.Name, other.Name)
	p.install.Create(t, other, c)
	return p.tokenOf(t, p.ready(t, c))
}

// serviceAccountToken is one that Kubernetes signs for the realm as audience.
func (p *place) serviceAccountToken(t *testing.T) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.env.Namespace(t), Name: p.client.Name}}
	p.install.Create(t, account)
	client, err := kubernetes.NewForConfig(p.env.Config)
	if err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{p.issuer}}}
	answer, err := client.CoreV1().ServiceAccounts(account.Namespace).CreateToken(t.Context(), account.Name, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

// asker asks the token service about tokens.
type asker struct {
	place  *place
	client *http.Client
}

func (p *place) newAsker(t *testing.T) *asker {
	t.Helper()
	return &asker{p, p.server.Client(t)}
}

// ask returns the status of verify and the answer of introspection.
func (a *asker) ask(t *testing.T, token string) (verify int, introspection string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.place.issuer+"/oauth2/verify", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	verify, _ = a.do(t, request)

	form := strings.NewReader(url.Values{"token": {token}}.Encode())
	request, err = http.NewRequestWithContext(t.Context(), http.MethodPost, a.place.issuer+"/oauth2/introspect", form)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth(a.place.clientID, a.place.clientSecret)
	_, introspection = a.do(t, request)
	return verify, introspection
}

func (a *asker) do(t *testing.T, request *http.Request) (status int, body string) {
	t.Helper()
	answer, err := a.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, strings.TrimSpace(string(content))
}
