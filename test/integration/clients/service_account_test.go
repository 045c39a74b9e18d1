package clients_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// requestToken requests a token with a Pod's service account token and returns the response.
func requestToken(t *testing.T, s *install.TokenServer, c *v1beta1.ApiClient, clientID, token string) install.TokenResponse {
	t.Helper()
	a, err := install.RequestTokenByAssertion(t, s, s.Client(t), c.Status.TokenEndpoint, clientID, token)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// awaitResponse waits until every token server responds with the given error code or, if it is
// empty, issues a token.
func awaitResponse(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient, token, wantError string) {
	t.Helper()
	for _, s := range inst.Servers() {
		install.Eventually(t, s.Name+" to respond with "+strconv.Quote(wantError), func() error {
			if a := requestToken(t, s, c, c.Status.ClientID, token); a.Error != wantError || (a.AccessToken == "") != (wantError != "") {
				return fmt.Errorf("the response is %d %s: %s", a.Status, a.Error, a.Description)
			}
			return nil
		})
	}
}

// A Pod gets tokens with its service account token and doesn't need a secret. All other service
// account tokens are rejected with the same error.
func testServiceAccounts(t *testing.T, inst *install.Installation) {
	cluster := inst.Env
	team, elsewhere := cluster.Namespace(t), cluster.Namespace(t)
	realm := install.Realm("accounts", func(r *v1beta1.Realm) { r.Spec.Scopes = []string{"read"} })
	c := install.ApiClient(team, "billing", "accounts", func(c *v1beta1.ApiClient) {
		c.Spec.Scopes = []string{"read"}
		c.Spec.Identities = install.ServiceAccounts("billing", "late")
	})
	inst.Create(t, realm, c, install.Realm("accounts-other"))
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonServiceAccountNotFound)
	scenario.ExpectMessage(t, c, v1beta1.ConditionAccepted, "billing, late", "spec.identities")
	pod := install.CreatePod(t, cluster.Client, team, "billing")
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	scenario.ExpectMessage(t, c, v1beta1.ConditionAccepted, "late")
	if c.Status.SecretName != "" || len(c.Status.Secrets()) != 0 {
		t.Errorf("status has secretName %q and secrets %v, want none", c.Status.SecretName, c.Status.Secrets())
	}
	issuer := strings.TrimSuffix(c.Status.TokenEndpoint, "/oauth2/token")
	good := install.PodToken(t, cluster.Client, pod, issuer)
	for _, s := range inst.Servers() { // Ready means that all token servers accept the token, more than once
		for range 2 {
			if a := requestToken(t, s, c, c.Status.ClientID, good); a.AccessToken == "" || a.Scope != "read" {
				t.Errorf("%s did not issue a token: %+v", s.Name, a)
			}
		}
	}
	secrets := &corev1.SecretList{}
	if err := cluster.Client.List(t.Context(), secrets, client.InNamespace(team)); err != nil || len(secrets.Items) != 0 {
		t.Errorf("the namespace contains %d Secrets, want none: %v", len(secrets.Items), err)
	}

	late := install.CreatePod(t, cluster.Client, team, "late")
	awaitResponse(t, inst, c, install.PodToken(t, cluster.Client, late, issuer), "")
	sameName := install.CreatePod(t, cluster.Client, elsewhere, "billing")
	for name, token := range map[string]string{
		"same name elsewhere": install.PodToken(t, cluster.Client, sameName, issuer),
		"wrong audience":      install.PodToken(t, cluster.Client, pod, strings.Replace(issuer, "accounts", "accounts-other", 1)),
		"not bound to a pod":  install.PodToken(t, cluster.Client, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: team}, Spec: pod.Spec}, issuer),
	} {
		t.Run(name, func(t *testing.T) {
			install.Eventually(t, "the limit of failures to permit another request", func() error {
				a := requestToken(t, inst.Servers()[0], c, c.Status.ClientID, token)
				switch {
				case a.Status == http.StatusTooManyRequests:
					return fmt.Errorf("the response is %+v", a)
				case a.Error != "invalid_client":
					t.Errorf("the response is %+v, want invalid_client", a)
				}
				return nil
			})
		})
	}
	// The client holds its service account, so that its requests need no client ID.
	for _, s := range inst.Servers() {
		if a := requestToken(t, s, c, "", good); a.AccessToken == "" {
			t.Errorf("%s did not issue a token without a client ID: %+v", s.Name, a)
		}
	}
}

// The tokens of a deleted service account are rejected, even after an account with the same name is
// created.
func testDeletedServiceAccount(t *testing.T, inst *install.Installation) {
	cluster := inst.Env
	c := install.ApiClient(cluster.Namespace(t), "billing", "deleted-accounts", func(c *v1beta1.ApiClient) {
		c.Spec.Identities = install.ServiceAccounts("billing")
	})
	inst.Create(t, install.Realm("deleted-accounts"))
	pod := install.CreatePod(t, cluster.Client, c.Namespace, "billing")
	inst.Create(t, c)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	issuer := strings.TrimSuffix(c.Status.TokenEndpoint, "/oauth2/token")
	token := install.PodToken(t, cluster.Client, pod, issuer)
	awaitResponse(t, inst, c, token, "")

	inst.Delete(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "billing"}})
	awaitResponse(t, inst, c, token, "invalid_client")
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonServiceAccountNotFound)
	next := install.CreatePod(t, cluster.Client, c.Namespace, "billing")
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	awaitResponse(t, inst, c, install.PodToken(t, cluster.Client, next, issuer), "")
	awaitResponse(t, inst, c, token, "invalid_client")
}
