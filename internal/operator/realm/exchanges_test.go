package realm

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/rules/delegation"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// ofClients is a rule for tokens of clients, and ofIssuer for those of an issuer.
func ofClients() v1beta1.Exchange {
	return v1beta1.Exchange{
		Name: "orders",
		Actors: v1beta1.ExchangeClients{
			Namespaces: v1beta1.ExchangeNamespaces{Names: []string{"b", "agents"}}, ClientIDs: []string{"b", "agent"},
		},
		Subjects: v1beta1.ExchangeSubjects{
			Clients: &v1beta1.ExchangeClients{Namespaces: v1beta1.ExchangeNamespaces{
				Selector: &v1beta1.ExchangeNamespaceSelector{MatchLabels: v1beta1.Labels{"apps": "yes"}},
			}},
			Audiences: v1beta1.ExchangeAudiences{"agents"}, Scopes: v1beta1.ExchangeScopes{"call"},
		},
		Audiences: v1beta1.ExchangeAudiences{"orders"}, Scopes: v1beta1.ExchangeScopes{"write", "read"},
		MaxDepth: 2, TokenLifetime: &v1beta1.Duration{Duration: time.Minute}, SenderConstraint: v1beta1.SenderConstraintDPoP,
		DeniedSubjects: []string{"mallory", "eve"},
	}
}

func ofIssuer() v1beta1.Exchange {
	return v1beta1.Exchange{
		Name:   "corporate",
		Actors: v1beta1.ExchangeClients{Namespaces: v1beta1.ExchangeNamespaces{From: v1beta1.NamespacesFromAll}},
		Subjects: v1beta1.ExchangeSubjects{Issuer: &v1beta1.ExchangeIssuer{
			Name: "corporate", MatchClaims: v1beta1.ClaimMatches{{Name: "azp", Value: "portal"}},
		}},
		Audiences: v1beta1.ExchangeAudiences{"orders"}, Scopes: v1beta1.ExchangeScopes{"read"},
	}
}

// exchanging returns a Realm that defines everything that ofClients and ofIssuer refer to.
func exchanging(rules ...v1beta1.Exchange) *v1beta1.Realm {
	return acme(func(r *v1beta1.Realm) {
		r.Spec.Scopes, r.Spec.Audiences = v1beta1.Scopes{"call", "read", "write"}, v1beta1.Audiences{"agents", "orders"}
		r.Spec.TrustedIssuers = []v1beta1.TrustedIssuer{{Name: "corporate", Issuer: discovered, Uses: []v1beta1.IssuerUse{v1beta1.IssuerUseSubject}}}
		r.Spec.Exchanges = rules
	})
}

// The record contains the rules in the order of the spec, with defaults and sorted lists.
func TestExchangesAreRecorded(t *testing.T) {
	want := []record.Exchange{
		{
			Name:             "orders",
			Actors:           record.ClientSelector{Namespaces: []string{"agents", "b"}, ClientIDs: []string{"agent", "b"}},
			Subjects:         &record.ClientSelector{Labels: record.DigestOfSelector(&v1beta1.NamespaceSelector{MatchLabels: v1beta1.Labels{"apps": "yes"}})},
			SubjectAudiences: []string{"agents"}, SubjectScopes: []string{"call"},
			Audiences: []string{"orders"}, Scopes: []string{"read", "write"},
			MaxDepth: 2, TokenLifetimeSeconds: 60, DPoP: true, DeniedSubjects: []string{"eve", "mallory"},
		},
		{
			Name: "corporate", Actors: record.ClientSelector{All: true}, Issuer: "corporate", Claims: map[string]string{"azp": "portal"},
			Audiences: []string{"orders"}, Scopes: []string{"read"}, MaxDepth: 1,
		},
	}
	realm := exchanging(ofClients(), ofIssuer())
	d := decided(t, observed{realm: realm})
	testkit.Diff(t, "rules", want, d.record.Exchanges)
	testkit.Diff(t, "uses", []bool{false, true, false}, []bool{d.record.Issuers[0].Authenticates, d.record.Issuers[0].Subjects, d.record.Issuers[0].IDJAG})
	if _, err := record.ReadRealm(written(t, realm, d)); err != nil {
		t.Error(err)
	}
	// What the realm doesn't define is omitted, except for what a token must have.
	realm.Spec.Scopes, realm.Spec.Audiences = v1beta1.Scopes{"read"}, v1beta1.Audiences{"agents"}
	d = decided(t, observed{realm: realm})
	want[0].Scopes, want[0].Audiences, want[1].Audiences = []string{"read"}, nil, nil
	testkit.Diff(t, "rules without undefined parts", want, d.record.Exchanges)
	// If the realm lists no audiences, its only one is the issuer.
	realm.Spec.Audiences, realm.Spec.Exchanges[1].Audiences = nil, v1beta1.ExchangeAudiences{"https://api.example.com/acme"}
	testkit.Diff(t, "audience", []string{"https://api.example.com/acme"}, decided(t, observed{realm: realm}).record.Exchanges[1].Audiences)
}

// Token servers judge by the rules of the spec, which the plugin and the portal judge by, too.
func TestRecordsKeepRules(t *testing.T) {
	jags := ofIssuer()
	jags.Subjects.Issuer.Use = v1beta1.ExchangeUseIDJAG
	realm := exchanging(ofClients(), ofIssuer(), jags)
	want := delegation.RulesOf(realm, "", record.DigestOfSelector)
	for i, recorded := range recordedExchanges(realm, "") {
		got := registry.NewRule(recorded, nil)
		want[i].Digest = got.Digest
		testkit.Diff(t, "rule", want[i], got)
	}
}

func TestExchangesResolved(t *testing.T) {
	agent := func(namespace, id string) v1beta1.ApiClient {
		return v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}, Spec: v1beta1.ApiClientSpec{ClientID: id}}
	}
	everyone := []v1beta1.ApiClient{agent("agents", "agent"), agent("b", "b")}
	for name, tc := range map[string]struct {
		change  func(*v1beta1.Realm)
		clients []v1beta1.ApiClient // defaults to everyone
		want    string              // without the end that all messages have; empty if resolved
	}{
		"everything exists": {},
		"default client ID": {clients: []v1beta1.ApiClient{agent("agents", ""), agent("b", "b")}, change: func(r *v1beta1.Realm) {
			r.Spec.Exchanges[0].Actors.ClientIDs = []string{"agents.a"}
		}},
		"namespace that is selected by labels": {clients: append([]v1beta1.ApiClient{agent("anywhere", "portal")}, everyone...), change: func(r *v1beta1.Realm) {
			r.Spec.Exchanges[0].Subjects.Clients.ClientIDs = []string{"portal"}
		}},
		"audience of subjects and of the rule": {
			change: func(r *v1beta1.Realm) {
				r.Spec.Audiences, r.Spec.Exchanges = v1beta1.Audiences{"x"}, r.Spec.Exchanges[:1]
			},
			want: `Rule "orders" in spec.exchanges: the realm does not define these audiences: agents, orders. Add them to spec.audiences, or remove them from the rule.`,
		},
		"scope of subjects and of the rule": {
			change: func(r *v1beta1.Realm) { r.Spec.Scopes = v1beta1.Scopes{"read"} },
			want:   `Rule "orders" in spec.exchanges: the realm does not define these scopes: call, write. Add them to spec.scopes, or remove them from the rule.`,
		},
		"issuer": {
			change: func(r *v1beta1.Realm) { r.Spec.TrustedIssuers = nil },
			want:   `Rule "corporate" in spec.exchanges: spec.trustedIssuers has no issuer with the name "corporate". Add it, or correct subjects.issuer.name.`,
		},
		"use of the issuer": {
			change: func(r *v1beta1.Realm) { r.Spec.TrustedIssuers[0].Uses = nil },
			want:   `Rule "corporate" in spec.exchanges: the tokens of issuer "corporate" are not accepted for it. Add Subject to its uses in spec.trustedIssuers, or correct subjects.issuer.use.`,
		},
		"other use of the issuer": {
			change: func(r *v1beta1.Realm) { r.Spec.TrustedIssuers[0].Uses = []v1beta1.IssuerUse{v1beta1.IssuerUseIDJAG} },
			want:   `Rule "corporate" in spec.exchanges: the tokens of issuer "corporate" are not accepted for it. Add Subject to its uses in spec.trustedIssuers, or correct subjects.issuer.use.`,
		},
		"rule for ID-JAGs": {change: func(r *v1beta1.Realm) {
			r.Spec.TrustedIssuers[0].Uses = []v1beta1.IssuerUse{v1beta1.IssuerUseIDJAG}
			for i := range r.Spec.Exchanges {
				if from := r.Spec.Exchanges[i].Subjects.Issuer; from != nil {
					from.Use = v1beta1.ExchangeUseIDJAG
				}
			}
		}},
		"actor": {
			clients: everyone[:1],
			want:    `Rule "orders" in spec.exchanges: no ApiClient in the selected namespaces has these client IDs: b. Create it, or correct clientIDs.`,
		},
		"actor in another namespace": {
			clients: []v1beta1.ApiClient{agent("other", "agent"), agent("b", "b")},
			want:    `Rule "orders" in spec.exchanges: no ApiClient in the selected namespaces has these client IDs: agent. Create it, or correct clientIDs.`,
		},
		"subject client": {
			change: func(r *v1beta1.Realm) { r.Spec.Exchanges[0].Subjects.Clients.ClientIDs = []string{"portal"} },
			want:   `Rule "orders" in spec.exchanges: no ApiClient in the selected namespaces has these client IDs: portal. Create it, or correct clientIDs.`,
		},
		"several": {
			clients: everyone[1:],
			change:  func(r *v1beta1.Realm) { r.Spec.TrustedIssuers = nil },
			want: `Rule "orders" in spec.exchanges: no ApiClient in the selected namespaces has these client IDs: agent. Create it, or correct clientIDs. ` +
				`Rule "corporate" in spec.exchanges: spec.trustedIssuers has no issuer with the name "corporate". Add it, or correct subjects.issuer.name.`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			realm := exchanging(ofClients(), ofIssuer())
			if tc.change != nil {
				tc.change(realm)
			}
			if tc.clients == nil {
				tc.clients = everyone
			}
			acknowledged := acknowledgement.Acknowledged
			got := status(realm, decided(t, observed{realm: realm, clients: tc.clients}), &acknowledged, instance())
			c := meta.FindStatusCondition(got.Conditions, string(v1beta1.ConditionExchangesResolved))
			want := metav1.Condition{Status: metav1.ConditionTrue, Reason: string(v1beta1.ReasonExchangesResolved), Message: "Everything exists that spec.exchanges refers to."}
			if tc.want != "" {
				want = metav1.Condition{Status: metav1.ConditionFalse, Reason: string(v1beta1.ReasonExchangeNotResolved), Message: tc.want + " The other parts of the rules work."}
			}
			if c == nil || c.Status != want.Status || c.Reason != want.Reason || c.Message != want.Message {
				t.Errorf("the condition is %+v, want %+v", c, want)
			}
			if !meta.IsStatusConditionTrue(got.Conditions, string(v1beta1.ConditionAccepted)) {
				t.Error("the Realm is not Accepted")
			}
		})
	}
}

// A Realm that isn't Accepted, or has no exchanges, has no condition for them.
func TestNoExchangesCondition(t *testing.T) {
	rejected := exchanging(ofClients())
	rejected.Spec.TokenLifetime = &v1beta1.Duration{Duration: 24 * time.Hour}
	for name, realm := range map[string]*v1beta1.Realm{"no exchanges": exchanging(), "not Accepted": rejected} {
		t.Run(name, func(t *testing.T) {
			waiting := acknowledgement.Waiting
			got := status(realm, decided(t, observed{realm: realm}), &waiting, instance())
			if c := meta.FindStatusCondition(got.Conditions, string(v1beta1.ConditionExchangesResolved)); c != nil {
				t.Errorf("condition %v", c)
			}
		})
	}
}

// The message of many problems is limited like every message.
func TestLongExchangesMessage(t *testing.T) {
	rule := ofClients()
	for range 16 {
		rule.Scopes = append(rule.Scopes, strings.Repeat("s", 128))
	}
	var rules []v1beta1.Exchange
	for range record.MaxExchanges {
		rules = append(rules, rule)
	}
	realm, waiting := exchanging(rules...), acknowledgement.Waiting
	for i := range realm.Spec.Exchanges {
		for j := range realm.Spec.Exchanges[i].Scopes {
			realm.Spec.Exchanges[i].Scopes[j] += string(rune('a'+i)) + string(rune('a'+j))
		}
	}
	got := status(realm, decided(t, observed{realm: realm}), &waiting, instance())
	if c := meta.FindStatusCondition(got.Conditions, string(v1beta1.ConditionExchangesResolved)); c == nil || len(c.Message) > 2048 {
		t.Errorf("the condition is %.300v", c)
	}
}
