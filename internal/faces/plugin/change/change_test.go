package change_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit/plugintest"
)

// Until the token servers reject the old secret, anyone who has it can get tokens that the first
// value of tokensValidAfterTime does not revoke. With --wait, the command therefore sets the field again.
func TestRevokeSecretAlsoRevokesLaterTokens(t *testing.T) {
	c := plugintest.Client("leaked",
		plugintest.Condition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReady),
		plugintest.Condition(v1beta1.ConditionProgrammed, metav1.ConditionTrue, v1beta1.ReasonReady))
	c.APIVersion, c.Kind, c.UID = v1beta1.GroupVersion.String(), "ApiClient", types.UID("1")
	c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{}}
	c.Status.Credentials = []v1beta1.CredentialStatus{{Type: v1beta1.CredentialTypeSecret, Name: "old", State: v1beta1.CredentialCurrent}}
	controller := true
	credentials := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "acme", Name: c.EffectiveSecretName(), UID: "2", ResourceVersion: "3",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: c.APIVersion, Kind: c.Kind, Name: c.Name, UID: c.UID, Controller: &controller}},
	}}
	var changes []string
	flag := plugintest.APIServer(t, func(w http.ResponseWriter, r *http.Request) {
		isSecret := strings.Contains(r.URL.Path, "/secrets/")
		switch {
		case isSecret && r.Method == http.MethodPatch:
			changes = append(changes, "remove the secret")
			c.Status.Credentials[0].Name = "new"
			_ = json.NewEncoder(w).Encode(credentials)
		case isSecret:
			_ = json.NewEncoder(w).Encode(credentials)
		default:
			if r.Method == http.MethodPatch {
				changes = append(changes, "revoke tokens")
				c.Spec.TokensValidAfterTime = &metav1.Time{Time: time.Now()}
			}
			_ = json.NewEncoder(w).Encode(c)
		}
	})
	code, _, stderr := plugintest.Run(t, "revoke", "apiclient/leaked", "--secret", "--wait", "--namespace=acme", flag)
	if want := []string{"revoke tokens", "remove the secret", "revoke tokens"}; code != 0 || !slices.Equal(changes, want) {
		t.Errorf("Exit code %d, %s, changes %q; want %q", code, stderr, changes, want)
	}
	changes = nil
	code, stdout, stderr := plugintest.Run(t, "revoke", "apiclient/leaked", "--secret", "--namespace=acme", flag)
	if want := "kubectl realmkeeper revoke apiclient/leaked -n acme --wait"; code != 0 || !strings.Contains(stdout, want) {
		t.Errorf("Exit code %d, %s, output %q; want the command %q", code, stderr, stdout, want)
	}
}

// A rotation waits for the previous one, so --wait doesn't begin one during another.
func TestRotateDuringRotation(t *testing.T) {
	c := plugintest.Client("billing")
	c.APIVersion, c.Kind = v1beta1.GroupVersion.String(), "ApiClient"
	c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{}}
	c.Status.Credentials = []v1beta1.CredentialStatus{
		{Type: v1beta1.CredentialTypeSecret, Name: "old", State: v1beta1.CredentialCurrent}, {Type: v1beta1.CredentialTypeSecret, Name: "new", State: v1beta1.CredentialNext},
	}
	flag := plugintest.APIServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		_ = json.NewEncoder(w).Encode(c)
	})
	code, _, stderr := plugintest.Run(t, "rotate", "apiclient/billing", "--namespace=acme", flag)
	if code != 1 || !strings.Contains(stderr, "secret new replaces the current one") {
		t.Errorf("Exit code %d, %q; want 1 and the rotation in progress", code, stderr)
	}
}
