package interop_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// testForgedTokens checks that the verify and introspection endpoints reject everything except
// valid tokens of the realm, even if only one character differs. They must not reveal anything
// about a rejected token.
func testForgedTokens(t *testing.T, i *installation) {
	good := i.token(t)
	checker := i.newTokenChecker(t)
	if verify, introspection := checker.check(t, good); verify != http.StatusOK || !strings.Contains(introspection, `"active":true`) {
		t.Fatalf("valid token: verify returns %d, introspection %s", verify, introspection)
	}
	wantRejected := func(t *testing.T, forged string) {
		t.Helper()
		if verify, introspection := checker.check(t, forged); verify != http.StatusUnauthorized || introspection != `{"active":false}` {
			t.Errorf("token %s: verify returns %d, introspection %s", forged, verify, introspection)
		}
	}
	t.Run("one character changed", func(t *testing.T) {
		for at := range good {
			other := "A"
			if good[at] == 'A' {
				other = "B"
			}
			wantRejected(t, good[:at]+other+good[at+1:])
		}
	})
	for name, forged := range i.forgedTokens(t, good) {
		t.Run(name, func(t *testing.T) { wantRejected(t, forged) })
	}
	// These have the realm's signature, so only the claims can be wrong.
	claims := claimsOf(t, good)
	if verify, introspection := checker.check(t, i.sign(t, claims)); verify != http.StatusOK || !strings.Contains(introspection, `"active":true`) {
		t.Fatalf("unchanged claims: verify returns %d, introspection %s", verify, introspection)
	}
	other := claimsOf(t, i.tokenOf(t, i.gateway))
	for name, change := range map[string]map[string]any{
		"identity of another client":  {"client_uid": other["client_uid"]},
		"client_id of another client": {"client_id": other["client_id"], "sub": other["sub"]},
		"no client_uid":               {"client_uid": nil},
		"empty client_uid":            {"client_uid": ""},
		"client_uid is the client_id": {"client_uid": claims["client_id"]},
		"no client_id":                {"client_id": nil},
		"issuer of another realm":     {"iss": i.issuer + "x"},
		"expired":                     {"exp": claims["iat"]},
		"no exp":                      {"exp": nil},
		"issued in the future":        {"iat": claims["exp"]},
	} {
		t.Run(name, func(t *testing.T) { wantRejected(t, i.sign(t, changed(claims, change))) })
	}
}

// testPredecessor checks that tokens of a deleted client don't count for the client that is created
// with the same name, regardless of the times in them. A token server whose clock is ahead could
// have issued them.
func testPredecessor(t *testing.T, i *installation) {
	create := func() (*v1alpha1.ApiClient, *corev1.Secret) {
		c := install.ApiClient(i.client.Namespace, "reborn", i.realm.Name, func(c *v1alpha1.ApiClient) { c.Spec.Scopes = []string{scope} })
		i.inst.Create(t, c)
		return c, i.awaitReady(t, c)
	}
	first, credentials := create()
	old := i.tokenOf(t, credentials)
	checker := i.newTokenChecker(t)
	if verify, introspection := checker.check(t, old); verify != http.StatusOK || !strings.Contains(introspection, `"active":true`) {
		t.Fatalf("before the deletion: verify returns %d, introspection %s", verify, introspection)
	}
	i.inst.Delete(t, first)
	// Until the operator has seen the deletion, it would create the Secret again.
	install.Eventually(t, "the token of the deleted client to be rejected", func() error {
		if verify, _ := checker.check(t, old); verify != http.StatusUnauthorized {
			return fmt.Errorf("verify returns %d", verify)
		}
		return nil
	})
	i.inst.Delete(t, credentials) // Kubernetes does this where its garbage collector runs.
	second, credentials := create()
	claims := claimsOf(t, old)
	future := map[string]any{"iat": time.Now().Add(20 * time.Second).Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	successor := &tokenChecker{i, checker.client, credentials}
	for name, token := range map[string]string{"as issued": old, "issued in the future": i.sign(t, changed(claims, future))} {
		for by, checker := range map[string]*tokenChecker{"a gateway": checker, "the successor": successor} {
			if verify, introspection := checker.check(t, token); verify != http.StatusUnauthorized || introspection != `{"active":false}` {
				t.Errorf("token of the predecessor, %s, checked by %s: verify returns %d, introspection %s", name, by, verify, introspection)
			}
		}
	}
	future["client_uid"] = second.UID
	for name, token := range map[string]string{"as issued": i.tokenOf(t, credentials), "issued in the future": i.sign(t, changed(claims, future))} {
		if verify, introspection := checker.check(t, token); verify != http.StatusOK || !strings.Contains(introspection, `"active":true`) {
			t.Errorf("token of the successor, %s: verify returns %d, introspection %s", name, verify, introspection)
		}
	}
}

// sign returns a token with the given claims and the signature of the realm's active key.
func (i *installation) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	id := i.activeKey(t).KeyID
	var secret corev1.Secret
	if err := i.cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: i.inst.RecordsNamespace, Name: record.RealmSecretName(i.realm.UID)}, &secret); err != nil {
		t.Fatal(err)
	}
	realm, err := record.ReadRealm(&secret)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(realm.Keys, func(key signingkey.Key) bool { return key.ID == id })
	if at < 0 {
		t.Fatalf("the record doesn't contain the key %s", id)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	input := encode([]byte(`{"alg":"ES256","kid":"`+id+`","typ":"at+jwt"}`)) + "." + encode(payload)
	signature, err := realm.Keys[at].Signer().Sign(nil, []byte(input))
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + encode(signature)
}

// claimsOf returns the claims of a token without verifying it. Numbers keep their form.
func claimsOf(t *testing.T, token string) map[string]any {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	var claims map[string]any
	if err := decoder.Decode(&claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

// changed returns a copy of claims with changes. A claim that changes to nil is removed.
func changed(claims, changes map[string]any) map[string]any {
	all := maps.Clone(claims)
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	return all
}

// forgedTokens returns tokens with a valid token's claims but a wrong signature, and tokens that
// were issued for a different purpose.
func (i *installation) forgedTokens(t *testing.T, good string) map[string]string {
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
	published := i.publishedKey(t, id)
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
		"none":                         "eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0." + parts[1] + ".",
		"HMAC with the public key":     sign(jose.HS256, published, id, false),
		"known kid, wrong key":         sign(jose.ES256, own, id, false),
		"unknown kid":                  sign(jose.ES256, own, "own", false),
		"embedded key":                 sign(jose.ES256, own, "", true),
		"token from another realm":     i.tokenOfRealm(t, "other"),
		"client assertion":             i.signer.assertion(t),
		"Kubernetes token":             i.serviceAccountToken(t),
		"no signature":                 parts[0] + "." + parts[1] + ".",
		"signature from another token": parts[0] + "." + parts[1] + "." + strings.Split(i.token(t), ".")[2],
	}
}

// testTokenAsAssertion checks that an access token isn't accepted as a client assertion.
func testTokenAsAssertion(t *testing.T, i *installation) {
	form := url.Values{
		"grant_type":            {"client_credentials"},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		"client_assertion":      {i.token(t)},
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, i.tokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if status, body := i.newTokenChecker(t).do(t, request); status != http.StatusUnauthorized || !strings.Contains(body, `"invalid_client"`) {
		t.Errorf("response is %d %s, want 401 with invalid_client", status, body)
	}
}

// publishedKey returns the DER encoding of a public key from the realm's JWK Set.
func (i *installation) publishedKey(t *testing.T, id string) []byte {
	t.Helper()
	response, err := i.server.Client(t).Get(i.issuer + "/oauth2/jwks")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(response.Body).Decode(&set); err != nil || len(set.Key(id)) != 1 {
		t.Fatalf("JWK Set has keys %v, want exactly one with ID %s: %v", set.Keys, id, err)
	}
	der, err := x509.MarshalPKIXPublicKey(set.Key(id)[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// tokenOfRealm creates a realm with the same scopes and audiences, and returns a token for a client
// in it. The client's ApiClient has the same name but is in a different namespace.
func (i *installation) tokenOfRealm(t *testing.T, name string) string {
	t.Helper()
	other := install.Realm(name, func(r *v1alpha1.Realm) { r.Spec.Scopes, r.Spec.Audiences = i.realm.Spec.Scopes, i.realm.Spec.Audiences })
	c := install.ApiClient(i.cluster.Namespace(t), i.client.Name, other.Name, func(c *v1alpha1.ApiClient) { c.Spec.Scopes = []string{scope} })
	i.inst.Create(t, other, c)
	return i.tokenOf(t, i.awaitReady(t, c))
}

// serviceAccountToken returns a Kubernetes token whose audience is the realm's issuer.
func (i *installation) serviceAccountToken(t *testing.T) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: i.cluster.Namespace(t), Name: i.client.Name}}
	i.inst.Create(t, account)
	clientset, err := kubernetes.NewForConfig(i.cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{i.issuer}}}
	response, err := clientset.CoreV1().ServiceAccounts(account.Namespace).CreateToken(t.Context(), account.Name, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return response.Status.Token
}

// tokenChecker sends tokens to the verify and introspection endpoints.
type tokenChecker struct {
	installation *installation
	client       *http.Client
	credentials  *corev1.Secret // of the client that introspects
}

func (i *installation) newTokenChecker(t *testing.T) *tokenChecker {
	t.Helper()
	return &tokenChecker{i, i.server.Client(t), i.gateway}
}

// check returns the status of the verify endpoint and the body of the introspection response.
func (c *tokenChecker) check(t *testing.T, token string) (verify int, introspection string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.installation.issuer+"/oauth2/verify", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	verify, _ = c.do(t, request)

	form := strings.NewReader(url.Values{"token": {token}}.Encode())
	request, err = http.NewRequestWithContext(t.Context(), http.MethodPost, c.installation.issuer+"/oauth2/introspect", form)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth(string(c.credentials.Data["client_id"]), string(c.credentials.Data["client_secret"]))
	_, introspection = c.do(t, request)
	return verify, introspection
}

func (c *tokenChecker) do(t *testing.T, request *http.Request) (status int, body string) {
	t.Helper()
	response, err := c.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(content))
}
