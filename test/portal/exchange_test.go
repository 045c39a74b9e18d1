package portal_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// keySet has the public key of RFC 8037, appendix A.2.
const keySet = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`

const ordersAPI, agentsAPI = "https://orders.acme.example", "https://agents.acme.example"

// allowExchanges adds two rules to a realm. The clients in the namespace agents can act for those in apps, and
// the clients in apps, which the rule selects by a label, for the users of an issuer.
func allowExchanges(r *v1beta1.Realm, apps, agents string) {
	r.Spec.Scopes = []string{"orders.read", "orders.write"}
	r.Spec.Audiences = []string{ordersAPI, agentsAPI}
	r.Spec.TrustedIssuers = []v1beta1.TrustedIssuer{{
		Name: "corporate", Issuer: "https://login.acme.example", Uses: []v1beta1.IssuerUse{v1beta1.IssuerUseSubject, v1beta1.IssuerUseIDJAG},
		Audience: agentsAPI, Keys: v1beta1.IssuerKeys{JWKS: keySet},
	}}
	r.Spec.Exchanges = []v1beta1.Exchange{
		{
			Name: "orders-for-agents", Actors: v1beta1.ExchangeClients{Namespaces: v1beta1.ExchangeNamespaces{Names: []string{agents}}},
			Subjects: v1beta1.ExchangeSubjects{
				Clients:   &v1beta1.ExchangeClients{Namespaces: v1beta1.ExchangeNamespaces{Names: []string{apps}}},
				Audiences: v1beta1.ExchangeAudiences{agentsAPI},
			},
			Audiences: v1beta1.ExchangeAudiences{ordersAPI}, Scopes: v1beta1.ExchangeScopes{"orders.read"},
			MaxDepth: 2, TokenLifetime: &v1beta1.Duration{Duration: 5 * time.Minute}, SenderConstraint: v1beta1.SenderConstraintDPoP,
			DeniedSubjects: []string{agents + ".leaked", "ext:corporate:alice%40example.com"},
		},
		{
			Name: "orders-for-users", Actors: v1beta1.ExchangeClients{Namespaces: v1beta1.ExchangeNamespaces{Selector: &v1beta1.ExchangeNamespaceSelector{
				MatchLabels: map[string]v1beta1.LabelValue{corev1.LabelMetadataName: v1beta1.LabelValue(apps)},
			}}},
			Subjects:  v1beta1.ExchangeSubjects{Issuer: &v1beta1.ExchangeIssuer{Name: "corporate", MatchClaims: v1beta1.ClaimMatches{{Name: "azp", Value: "portal"}}}},
			Audiences: v1beta1.ExchangeAudiences{ordersAPI}, Scopes: v1beta1.ExchangeScopes{"orders.read", "orders.write"},
		},
	}
}

// exchanges tests that the pages of a realm and a client show what clients can exchange, as far as the user is allowed
// to read it.
func exchanges(t *testing.T, i *instance, b *browser) {
	apps, agents := i.Env.Namespace(t), i.Env.Namespace(t)
	web := install.ApiClient(apps, "web", "exchanging", func(c *v1beta1.ApiClient) {
		c.Spec.Scopes, c.Spec.DelegatedScopes = []string{"orders.read"}, []string{"orders.write"}
	})
	narrow := install.ApiClient(apps, "narrow", "exchanging", func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{"orders.read"} })
	alone := install.ApiClient(i.Env.Namespace(t), "alone", "exchanging")
	i.Create(t, install.Realm("exchanging", func(r *v1beta1.Realm) { allowExchanges(r, apps, agents) }), web, narrow, alone)
	for _, c := range []*v1beta1.ApiClient{web, narrow, alone} {
		i.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	}
	const depends = "You don't have permission to read them."
	page, rest := "/clients/"+apps+"/web", []string{"Can act for", "Others can act for it", depends}

	b.signIn(i.admin)
	b.open("/realms/exchanging")
	for _, want := range []string{
		"Exchanges", "orders-for-agents", "Clients in namespaces: " + agents, "Clients in namespaces: " + apps, "Tokens for: " + agentsAPI, "Maximum depth: 2",
		"Token lifetime: at most 5m", "Sender constraint: DPoP", "Denied subjects: 2", "Tokens of issuer corporate", "Claim azp: portal",
	} {
		b.wantText(want)
	}
	b.wantNoText("alice")
	b.open(page)
	for _, want := range []string{
		"Delegated scopes", "Can act for", "Tokens of issuer corporate", "orders.read orders.write",
		"Others can act for it", "Clients in namespaces: " + agents, "Tokens for",
	} {
		b.wantText(want)
	}
	b.wantNoText(depends)
	b.wantNoText("missing")
	b.open("/clients/" + apps + "/narrow")
	b.wantText("Rule orders-for-users: Scope orders.write is missing. Add it to spec.delegatedScopes of the ApiClient.")
	b.open("/clients/" + alone.Namespace + "/alone")
	b.wantNoText("act for")

	viewer := b.tab(t)
	viewer.signIn(i.viewer)
	viewer.open(page)
	for _, want := range rest {
		viewer.wantText(want)
	}
	local := b.tab(t)
	local.signIn(i.user(t, "exchanging", "manage-api-credentials", apps))
	local.open(page)
	local.wantText("Client ID")
	local.wantNoText("act for")
}
