package operator_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

const clusterIssuer = "https://kubernetes.default.svc"

// account creates a service account and a pod that runs as it.
func account(t *testing.T, install *testinstall.Installation, namespace, name string) *corev1.Pod {
	t.Helper()
	if name != "default" {
		install.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: name + "-"},
		Spec: corev1.PodSpec{
			ServiceAccountName: name,
			Containers:         []corev1.Container{{Name: "workload", Image: "workload"}},
		},
	}
	testinstall.Eventually(t, "the account of pod "+pod.GenerateName, func() error {
		return install.Env.Client.Create(t.Context(), pod) // the controller manager makes "default"
	})
	return pod
}

// projected returns the token that the kubelet would mount into a pod; for none it is bound to nothing.
func projected(t *testing.T, env *testenv.Env, pod *corev1.Pod, bound bool, audiences ...string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: new(int64(600))}}
	if bound {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	if err := env.Client.SubResource("token").Create(t.Context(), of, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// resigned returns a token with some claims changed, signed with the cluster's own key.
func resigned(t *testing.T, env *testenv.Env, token string, change map[string]any) string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(filepath.Dir(env.Kubeconfig), "service-account.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(file)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		t.Fatal(err)
	}
	maps.Copy(claims, change)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: parsed.Headers[0].KeyID}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// mutated returns a token with one claim changed and its signature as it was.
func mutated(t *testing.T, token, old, next string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	payload, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(payload.UnsafePayloadWithoutVerification()), old, next, 1)
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(changed))
	return strings.Join(parts, ".")
}

// asks returns what a token server answers a pod.
func asks(t *testing.T, s *testinstall.TokenServer, c *v1alpha1.ApiClient, clientID, token string) testinstall.TokenAnswer {
	t.Helper()
	a, err := testinstall.RequestTokenByAssertion(t, s, s.Client(t), c.Status.TokenEndpoint, clientID, token)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// awaitAsks waits until every token server answers so; granted is an empty code.
func awaitAsks(t *testing.T, install *testinstall.Installation, c *v1alpha1.ApiClient, token, wantError string) {
	t.Helper()
	for _, s := range install.Servers() {
		testinstall.Eventually(t, s.Name+" to answer "+wantError, func() error {
			if a := asks(t, s, c, c.Status.ClientID, token); a.Error != wantError || (a.AccessToken == "") != (wantError != "") {
				return errorf("it answers %d %s: %s", a.Status, a.Error, a.Description)
			}
			return nil
		})
	}
}

// A pod gets a token with its service account and no secret at all; whatever else is presented is
// refused, with the one answer that says nothing.
func TestServiceAccounts(t *testing.T) {
	env := testenv.Start(t)
	install := running(t, env)
	team, elsewhere := env.Namespace(t), env.Namespace(t)
	realm := testinstall.Realm("acme", func(r *v1alpha1.Realm) { r.Spec.Scopes = []string{"read"} })
	c := testinstall.ApiClient(team, "billing", "acme", func(c *v1alpha1.ApiClient) {
		c.Spec.Scopes = []string{"read"}
		c.Spec.ServiceAccounts = []v1alpha1.ServiceAccountReference{{Name: "billing"}, {Name: "late"}}
	})
	install.Create(t, realm, c, testinstall.Realm("other"))
	install.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonServiceAccountNotFound)
	says(t, c, v1alpha1.ConditionAccepted, "billing, late", "spec.serviceAccounts")
	pod := account(t, install, team, "billing")
	install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	says(t, c, v1alpha1.ConditionAccepted, "late")
	if c.Status.SecretName != "" || len(c.Status.Secrets) != 0 {
		t.Errorf("status tells of Secret %q and secrets %v", c.Status.SecretName, c.Status.Secrets)
	}
	issuer := strings.TrimSuffix(c.Status.TokenEndpoint, "/oauth2/token")
	good := projected(t, env, pod, true, issuer)
	for _, s := range install.Servers() { // Ready means that everyone takes it, and more than once
		for range 2 {
			if a := asks(t, s, c, c.Status.ClientID, good); a.AccessToken == "" || a.Scope != "read" {
				t.Errorf("%s gives no token: %+v", s.Name, a)
			}
		}
	}
	secrets := &corev1.SecretList{}
	if err := env.Client.List(t.Context(), secrets, client.InNamespace(team)); err != nil || len(secrets.Items) != 0 {
		t.Errorf("%d Secrets stand beside it, %v", len(secrets.Items), err)
	}

	late := account(t, install, team, "late")
	awaitAsks(t, install, c, projected(t, env, late, true, issuer), "")
	namesake, stranger, fallback := account(t, install, elsewhere, "billing"), account(t, install, team, "stranger"), account(t, install, team, "default")
	hour := time.Now().Add(time.Hour).Unix()
	for name, tc := range map[string]struct {
		token, clientID, wantError string
	}{
		"wrong namespace":           {token: projected(t, env, namesake, true, issuer)},
		"another account":           {token: projected(t, env, stranger, true, issuer)},
		"default":                   {token: projected(t, env, fallback, true, issuer)},
		"wrong audience":            {token: projected(t, env, pod, true, strings.Replace(issuer, "acme", "other", 1))},
		"the API server's audience": {token: projected(t, env, pod, true)},
		"two audiences":             {token: projected(t, env, pod, true, issuer, clusterIssuer)},
		"bound to no pod":           {token: projected(t, env, pod, false, issuer)},
		"expired":                   {token: resigned(t, env, good, map[string]any{"exp": time.Now().Add(-time.Second).Unix()})},
		"another issuer":            {token: resigned(t, env, good, map[string]any{"iss": "https://example.com"})},
		"a changed expiry":          {token: mutated(t, good, `"exp":`, `"exp":1`)},
		"a changed signature":       {token: good[:len(good)-10] + "AAAAAAAAAA"},
		"another client":            {token: good, clientID: "nobody"},
		"no client":                 {token: good, clientID: "-", wantError: "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			wantError, clientID := "invalid_client", c.Status.ClientID
			if tc.wantError != "" {
				wantError, clientID = tc.wantError, ""
			} else if tc.clientID != "" {
				clientID = tc.clientID
			}
			if a := asks(t, install.Servers()[0], c, clientID, tc.token); a.Error != wantError {
				t.Errorf("it answers %+v, want %s", a, wantError)
			}
		})
	}
	// What is changed there is refused for what was changed.
	awaitAsks(t, install, c, resigned(t, env, good, map[string]any{"exp": hour}), "")
}

// A deleted service account ends its tokens, and one of the same name is another.
func TestDeletedServiceAccount(t *testing.T) {
	env := testenv.Start(t)
	install := running(t, env)
	c := testinstall.ApiClient(env.Namespace(t), "billing", "acme", func(c *v1alpha1.ApiClient) {
		c.Spec.ServiceAccounts = []v1alpha1.ServiceAccountReference{{Name: "billing"}}
	})
	install.Create(t, testinstall.Realm("acme"))
	pod := account(t, install, c.Namespace, "billing")
	install.Create(t, c)
	install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	issuer := strings.TrimSuffix(c.Status.TokenEndpoint, "/oauth2/token")
	token := projected(t, env, pod, true, issuer)
	awaitAsks(t, install, c, token, "")

	env.StopAPIServer(t) // token servers go on with the keys that they have
	for _, s := range install.Servers() {
		if a := asks(t, s, c, c.Status.ClientID, token); a.AccessToken == "" {
			t.Errorf("%s without the API server: %+v", s.Name, a)
		}
		if a := asks(t, s, c, c.Status.ClientID, resigned(t, env, token, map[string]any{"aud": "x"})); a.Error != "invalid_client" {
			t.Errorf("%s without the API server, of a wrong audience: %+v", s.Name, a)
		}
	}
	env.StartAPIServer(t)

	install.Delete(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "billing"}})
	awaitAsks(t, install, c, token, "invalid_client")
	install.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonServiceAccountNotFound)
	next := account(t, install, c.Namespace, "billing")
	install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	awaitAsks(t, install, c, projected(t, env, next, true, issuer), "")
	awaitAsks(t, install, c, token, "invalid_client")
}
