package inspect_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/plugintest"
	"github.com/realmkeeper/realmkeeper/internal/faces/describe"
)

// exchanging returns a client that can act for others, and a realm with rules that select it. One of them has a
// part that does not exist.
func exchanging() (*v1beta1.ApiClient, *v1beta1.Realm) {
	c := plugintest.Client("planner", plugintest.Condition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReady))
	c.APIVersion, c.Kind = v1beta1.GroupVersion.String(), "ApiClient"
	c.Spec.RealmRef.Name, c.Spec.Scopes, c.Spec.DelegatedScopes, c.Spec.Audiences = "shared", []string{"agents.call"}, []string{"orders.read"}, []string{"agents", "orders"}
	labeled := v1beta1.ExchangeClients{Namespaces: v1beta1.ExchangeNamespaces{Selector: &v1beta1.ExchangeNamespaceSelector{MatchLabels: v1beta1.Labels{"team": "agents"}}}}
	unresolved := plugintest.Condition(v1beta1.ConditionExchangesResolved, metav1.ConditionFalse, v1beta1.ReasonExchangeNotResolved)
	unresolved.Message = `Rule "people" in spec.exchanges: the realm does not define these audiences: refunds.`
	realm := &v1beta1.Realm{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "Realm"},
		ObjectMeta: metav1.ObjectMeta{Name: "shared"},
		Spec: v1beta1.RealmSpec{
			Audiences: []string{"agents", "orders"}, Scopes: []string{"agents.call", "orders.read", "orders.write"},
			TrustedIssuers: []v1beta1.TrustedIssuer{{Name: "corporate", Uses: []v1beta1.IssuerUse{v1beta1.IssuerUseSubject, v1beta1.IssuerUseIDJAG}}},
			Exchanges: []v1beta1.Exchange{
				{
					Name: "services", Actors: labeled, Audiences: v1beta1.ExchangeAudiences{"orders"}, Scopes: v1beta1.ExchangeScopes{"orders.read", "orders.write"},
					Subjects: v1beta1.ExchangeSubjects{
						Clients:   &v1beta1.ExchangeClients{Namespaces: v1beta1.ExchangeNamespaces{Names: []string{"acme", "shop"}}, ClientIDs: []string{"acme.planner", "shop.web"}},
						Audiences: v1beta1.ExchangeAudiences{"agents"}, Scopes: v1beta1.ExchangeScopes{"agents.call"},
					},
					MaxDepth: 2, TokenLifetime: &v1beta1.Duration{Duration: 5 * time.Minute}, SenderConstraint: v1beta1.SenderConstraintDPoP,
					DeniedSubjects: []string{"shop.leaked"},
				},
				{
					Name: "people", Actors: labeled, Audiences: v1beta1.ExchangeAudiences{"orders", "refunds"}, Scopes: v1beta1.ExchangeScopes{"orders.read"},
					Subjects: v1beta1.ExchangeSubjects{Issuer: &v1beta1.ExchangeIssuer{Name: "corporate", MatchClaims: v1beta1.ClaimMatches{{Name: "azp", Value: "portal; claims: none"}}}},
				},
			},
		},
		Status: v1beta1.RealmStatus{Conditions: []metav1.Condition{plugintest.Condition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReady), unresolved}},
	}
	return c, realm
}

// explained returns the output of explain if the labels of the namespace of the client are the given ones, or
// can't be read if they are nil.
func explained(t *testing.T, c *v1beta1.ApiClient, realm *v1beta1.Realm, labels map[string]string, args ...string) string {
	t.Helper()
	flag := plugintest.APIServer(t, func(w http.ResponseWriter, r *http.Request) {
		status := metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		var found any
		switch {
		case strings.HasSuffix(r.URL.Path, "/apiclients/planner"):
			found = c
		case strings.HasSuffix(r.URL.Path, "/realms/shared") && realm != nil:
			found = realm
		case strings.HasSuffix(r.URL.Path, "/namespaces/acme") && labels != nil:
			found = corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "acme", Labels: labels}}
		case strings.HasSuffix(r.URL.Path, "/events"):
			found = corev1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}}
		default:
			w.WriteHeader(http.StatusForbidden)
			found = metav1.Status{TypeMeta: status, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden}
		}
		_ = json.NewEncoder(w).Encode(found)
	})
	code, stdout, stderr := plugintest.Run(t, append([]string{"explain", "--namespace=acme", flag}, args...)...)
	if code != 0 || stderr != "" {
		t.Fatalf("Exit code %d, %s", code, stderr)
	}
	return stdout
}

const clientsExchanges = `
CAN ACT FOR
  Rule               services
  Subjects           clients in namespaces: acme, shop; client IDs:
                     acme.planner, shop.web; tokens for agents with all of the
                     scopes agents.call
  Audiences          orders
  Scopes             orders.read (a subject that is a client must have them too)
  Maximum depth      2
  Token lifetime     at most 5m
  Sender constraint  DPoP
  Denied subjects    1
  Missing            Scope orders.write is missing. Add it to
                     spec.delegatedScopes of the ApiClient.

  Rule           people
  Subjects       tokens of issuer corporate; claims: azp "portal; claims: none"
  Audiences      orders
  Scopes         orders.read
  Maximum depth  1
  Missing        Audience refunds is missing. Add it to spec.audiences of Realm
                 "shared".

OTHERS CAN ACT FOR IT
  Rule               services
  Effect             only if this client is an earlier actor in the token
  Actors             clients in namespaces: team=agents
  Tokens             tokens for agents with all of the scopes agents.call
  Audiences          orders
  Scopes             none
  Maximum depth      2
  Token lifetime     at most 5m
  Sender constraint  DPoP
  Denied subjects    1

`

// explain says what a client can exchange. If the labels of its namespace decide and can't be read, it says so.
func TestExplainShowsExchanges(t *testing.T) {
	c, realm := exchanging()
	section := func(output string) string {
		_, after, _ := strings.Cut(output, "Audiences         agents, orders\n")
		section, _, _ := strings.Cut(after, "CREDENTIALS")
		return section
	}
	known := map[string]string{"team": "agents"}
	testkit.Diff(t, "Exchanges", clientsExchanges, section(explained(t, c, realm, known, "apiclient/planner")))
	const applies = "  Applies            if the namespace has these labels, which you cannot read:\n                     team=agents\n"
	if got := explained(t, c, realm, nil, "apiclient/planner"); !strings.Contains(got, "  Rule               services\n"+applies) {
		t.Errorf("Without permission for namespaces, explain prints:\n%s", got)
	}
	denying := realm.DeepCopy()
	denying.Spec.Exchanges = append(denying.Spec.Exchanges, v1beta1.Exchange{
		Name: "others", Audiences: v1beta1.ExchangeAudiences{"orders"}, DeniedSubjects: []string{"acme.planner"},
		Subjects: v1beta1.ExchangeSubjects{Issuer: &v1beta1.ExchangeIssuer{Name: "corporate"}},
	})
	const denied = "deniedSubjects of rule others contains this client, for the actors and audiences of that rule"
	if got := explained(t, c, denying, known, "apiclient/planner"); !strings.Contains(strings.Join(strings.Fields(got), " "), denied) {
		t.Errorf("With a rule that denies the client, explain prints:\n%s", got)
	}
	unselected := c.DeepCopy()
	unselected.Spec.ClientID = "other"
	for name, got := range map[string]string{
		"other labels": explained(t, unselected, realm, map[string]string{"team": "apps"}, "apiclient/planner"),
		"no realm":     explained(t, c, nil, known, "apiclient/planner"),
	} {
		if strings.Contains(got, "ACT FOR") || !strings.Contains(got, "CREDENTIALS") {
			t.Errorf("With %s, explain prints:\n%s", name, got)
		}
	}

	if got := explained(t, unselected, realm, map[string]string{"team": "apps"}, "apiclient/planner", "-o", "json"); strings.Contains(got, "exchanges") {
		t.Errorf("With no rule, explain prints %s", got)
	}

	var report struct {
		APIClient struct{ Exchanges describe.Exchanges }
	}
	testkit.Do(t, json.Unmarshal([]byte(explained(t, c, realm, known, "apiclient/planner", "-o", "json")), &report))
	testkit.Diff(t, "Exchanges as JSON", describe.ExchangesOf(c, realm, known), report.APIClient.Exchanges)
}

const realmsExchanges = `
EXCHANGES
  services  actors: clients in namespaces: team=agents; subjects: clients in
            namespaces: acme, shop; client IDs: acme.planner, shop.web; tokens
            for agents with all of the scopes agents.call; audiences: orders;
            scopes: orders.read, orders.write; maximum depth: 2; token lifetime:
            at most 5m; sender constraint: DPoP; denied subjects: 1
  people  actors: clients in namespaces: team=agents; subjects: tokens of issuer
          corporate; claims: azp "portal; claims: none"; audiences: orders,
          refunds; scopes: orders.read; maximum depth: 1

`

// explain lists the rules of a realm, and says what is wrong with them. It shows no denied subjects, which can
// be people.
func TestExplainShowsRulesOfRealm(t *testing.T) {
	c, realm := exchanging()
	got := explained(t, c, realm, nil, "realm/shared")
	start, end := strings.Index(got, "\nEXCHANGES"), strings.Index(got, "SIGNING KEYS")
	if start < 0 || end < start {
		t.Fatalf("explain prints:\n%s", got)
	}
	testkit.Diff(t, "Rules", realmsExchanges, got[start:end])
	for _, want := range []string{
		"ExchangesResolved: ExchangeNotResolved\n", "does not exist", "audiences: refunds.\n", "Correct the rule, or create what is missing.", "kubectl edit realm shared",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("explain does not print %q:\n%s", want, got)
		}
	}
	asJSON := explained(t, c, realm, nil, "realm/shared", "-o", "json")
	var report struct {
		Realm struct{ Exchanges []describe.ExchangeRule }
	}
	testkit.Do(t, json.Unmarshal([]byte(asJSON), &report))
	testkit.Diff(t, "Rules as JSON", describe.ExchangeRules(realm), report.Realm.Exchanges)
	if strings.Contains(asJSON, "shop.leaked") {
		t.Errorf("explain prints a denied subject: %s", asJSON)
	}
}
