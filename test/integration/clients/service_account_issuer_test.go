package clients_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// The cluster gets another issuer, as with --service-account-issuer=B --service-account-issuer=A. A running Pod still
// has a token of A. It is accepted only by a token server that has A as another accepted issuer, and until its time.
func TestServiceAccountIssuerChanges(t *testing.T) {
	const former, current = "https://kubernetes.default.svc", "https://b.example.com"
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	c := install.ApiClient(cluster.Namespace(t), "billing", "issuers", func(c *v1beta1.ApiClient) {
		c.Spec.Identities = install.ServiceAccounts("billing")
	})
	inst.Create(t, install.Realm("issuers"))
	pod := install.CreatePod(t, cluster.Client, c.Namespace, "billing")
	inst.Create(t, c)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	issuer := strings.TrimSuffix(c.Status.TokenEndpoint, "/oauth2/token")
	old := install.PodToken(t, cluster.Client, pod, issuer)

	cluster.SetServiceAccountIssuers(t, current)
	renewed := install.PodToken(t, cluster.Client, pod, issuer)
	for name, test := range map[string]struct {
		accepted []string
		want     map[string]string // the error by the token
	}{
		"not configured": {nil, map[string]string{old: "invalid_client", renewed: ""}},
		"accepted":       {[]string{former + "=" + time.Now().Add(time.Hour).Format(time.RFC3339)}, map[string]string{old: "", renewed: ""}},
		"expired":        {[]string{former + "=" + time.Now().Add(-time.Second).Format(time.RFC3339)}, map[string]string{old: "invalid_client", renewed: ""}},
	} {
		t.Run(name, func(t *testing.T) {
			inst.AcceptedIssuers = test.accepted
			s := inst.StartTokenServer(t)
			for token, want := range test.want {
				if a := requestToken(t, s, c, c.Status.ClientID, token); a.Error != want || (a.AccessToken == "") != (want != "") {
					t.Errorf("the response is %+v, want %q", a, want)
				}
			}
		})
	}
}
