package clients_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
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
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

const clusterIssuer = "https://kubernetes.default.svc"

// account creates a service account and a pod that runs as it.
func account(t *testing.T, inst *install.Installation, namespace, name string) *corev1.Pod {
	t.Helper()
	if name != "default" {
		inst.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: name + "-"},
		Spec: corev1.PodSpec{
			ServiceAccountName: name,
			Containers:         []corev1.Container{{Name: "workload", Image: "workload"}},
		},
	}
	install.Eventually(t, "the account of pod "+pod.GenerateName, func() error {
		return inst.Env.Client.Create(t.Context(), pod) // the controller manager makes "default"
	})
	return pod
}

// projected returns the token that the kubelet would mount into a pod; for none it is bound to nothing.
func projected(t *testing.T, cluster *env.Env, pod *corev1.Pod, bound bool, audiences ...string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: new(int64(600))}}
	if bound {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	if err := cluster.Client.SubResource("token").Create(t.Context(), of, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// resigned returns a token with some claims changed, signed with the cluster's own key.
func resigned(t *testing.T, cluster *env.Env, token string, change map[string]any) string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(filepath.Dir(cluster.Kubeconfig), "service-account.key"))
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
func asks(t *testing.T, s *install.TokenServer, c *v1alpha1.ApiClient, clientID, token string) install.TokenResponse {
	t.Helper()
	a, err := install.RequestTokenByAssertion(t, s, s.Client(t), c.Status.TokenEndpoint, clientID, token)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// awaitAsks waits until every token server answers so; granted is an empty code.
func awaitAsks(t *testing.T, inst *install.Installation, c *v1alpha1.ApiClient, token, wantError string) {
	t.Helper()
	for _, s := range inst.Servers() {
		install.Eventually(t, s.Name+" to answer "+wantError, func() error {
			if a := asks(t, s, c, c.Status.ClientID, token); a.Error != wantError || (a.AccessToken == "") != (wantError != "") {
				return fmt.Errorf("it answers %d %s: %s", a.Status, a.Error, a.Description)
			}
			return nil
		})
	}
}

// A pod gets a token with its service account and no secret at all; whatever else is presented is
// refused, with the one answer that says nothing.
func TestServiceAccounts(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	team, elsewhere := cluster.Namespace(t), cluster.Namespace(t)
	realm := install.Realm("acme", func(r *v1alpha1.Realm) { r.Spec.Scopes = []string{"read"} })
	c := install.ApiClient(team, "billing", "acme", func(c *v1alpha1.ApiClient) {
		c.Spec.Scopes = []string{"read"}
		c.Spec.ServiceAccounts = []v1alpha1.ServiceAccountReference{{Name: "billing"}, {Name: "late"}}
	})
	inst.Create(t, realm, c, install.Realm("other"))
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonServiceAccountNotFound)
	scenario.ExpectMessage(t, c, v1alpha1.ConditionAccepted, "billing, late", "spec.serviceAccounts")
	pod := account(t, inst, team, "billing")
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	scenario.ExpectMessage(t, c, v1alpha1.ConditionAccepted, "late")
	if c.Status.SecretName != "" || len(c.Status.Secrets) != 0 {
		t.Errorf("status tells of Secret %q and secrets %v", c.Status.SecretName, c.Status.Secrets)
	}
	issuer := strings.TrimSuffix(c.Status.TokenEndpoint, "/oauth2/token")
	good := projected(t, cluster, pod, true, issuer)
	for _, s := range inst.Servers() { // Ready means that everyone takes it, and more than once
		for range 2 {
			if a := asks(t, s, c, c.Status.ClientID, good); a.AccessToken == "" || a.Scope != "read" {
				t.Errorf("%s gives no token: %+v", s.Name, a)
			}
		}
	}
	secrets := &corev1.SecretList{}
	if err := cluster.Client.List(t.Context(), secrets, client.InNamespace(team)); err != nil || len(secrets.Items) != 0 {
		t.Errorf("%d Secrets stand beside it, %v", len(secrets.Items), err)
	}

	late := account(t, inst, team, "late")
	awaitAsks(t, inst, c, projected(t, cluster, late, true, issuer), "")
	namesake, stranger, fallback := account(t, inst, elsewhere, "billing"), account(t, inst, team, "stranger"), account(t, inst, team, "default")
	hour := time.Now().Add(time.Hour).Unix()
	for name, tc := range map[string]struct {
		token, clientID, wantError string
	}{
		"wrong namespace":           {token: projected(t, cluster, namesake, true, issuer)},
		"another account":           {token: projected(t, cluster, stranger, true, issuer)},
		"default":                   {token: projected(t, cluster, fallback, true, issuer)},
		"wrong audience":            {token: projected(t, cluster, pod, true, strings.Replace(issuer, "acme", "other", 1))},
		"the API server's audience": {token: projected(t, cluster, pod, true)},
		"two audiences":             {token: projected(t, cluster, pod, true, issuer, clusterIssuer)},
		"bound to no pod":           {token: projected(t, cluster, pod, false, issuer)},
		"expired":                   {token: resigned(t, cluster, good, map[string]any{"exp": time.Now().Add(-time.Second).Unix()})},
		"another issuer":            {token: resigned(t, cluster, good, map[string]any{"iss": "https://example.com"})},
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
			if a := asks(t, inst.Servers()[0], c, clientID, tc.token); a.Error != wantError {
				t.Errorf("it answers %+v, want %s", a, wantError)
			}
		})
	}
	// What is changed there is refused for what was changed.
	awaitAsks(t, inst, c, resigned(t, cluster, good, map[string]any{"exp": hour}), "")
}

// A deleted service account ends its tokens, and one of the same name is another.
func TestDeletedServiceAccount(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	c := install.ApiClient(cluster.Namespace(t), "billing", "acme", func(c *v1alpha1.ApiClient) {
		c.Spec.ServiceAccounts = []v1alpha1.ServiceAccountReference{{Name: "billing"}}
	})
	inst.Create(t, install.Realm("acme"))
	pod := account(t, inst, c.Namespace, "billing")
	inst.Create(t, c)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	issuer := strings.TrimSuffix(c.Status.TokenEndpoint, "/oauth2/token")
	token := projected(t, cluster, pod, true, issuer)
	awaitAsks(t, inst, c, token, "")

	cluster.StopAPIServer(t) // token servers go on with the keys that they have
	for _, s := range inst.Servers() {
		if a := asks(t, s, c, c.Status.ClientID, token); a.AccessToken == "" {
			t.Errorf("%s without the API server: %+v", s.Name, a)
		}
		if a := asks(t, s, c, c.Status.ClientID, resigned(t, cluster, token, map[string]any{"aud": "x"})); a.Error != "invalid_client" {
			t.Errorf("%s without the API server, of a wrong audience: %+v", s.Name, a)
		}
	}
	cluster.StartAPIServer(t)

	inst.Delete(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "billing"}})
	awaitAsks(t, inst, c, token, "invalid_client")
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonServiceAccountNotFound)
	next := account(t, inst, c.Namespace, "billing")
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	awaitAsks(t, inst, c, projected(t, cluster, next, true, issuer), "")
	awaitAsks(t, inst, c, token, "invalid_client")
}
