package describe_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/faces/describe"
)

const orders, agents = "https://orders.example.com", "https://agents.example.com"

func inNamespace(name string, clientIDs ...string) v1beta1.ExchangeClients {
	return v1beta1.ExchangeClients{Namespaces: v1beta1.ExchangeNamespaces{Names: []string{name}}, ClientIDs: clientIDs}
}

// exchangeRule is a rule with which the clients in the namespace agents act for those in apps.
func exchangeRule() v1beta1.Exchange {
	return v1beta1.Exchange{
		Name: "orders", Actors: inNamespace("agents"), Subjects: v1beta1.ExchangeSubjects{Clients: new(inNamespace("apps")), Audiences: v1beta1.ExchangeAudiences{agents}},
		Audiences: v1beta1.ExchangeAudiences{orders}, Scopes: v1beta1.ExchangeScopes{"orders.write", "orders.read"},
	}
}

// exchangeClient is a client with the audience agents, the scope agents.call, and delegated scopes.
func exchangeClient(namespace string) *v1beta1.ApiClient {
	return &v1beta1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "planner"},
		Spec: v1beta1.ApiClientSpec{
			Scopes: []string{"agents.call", "orders.read"}, DelegatedScopes: []string{"orders.write"}, Audiences: []string{agents, orders},
		},
		Status: v1beta1.ApiClientStatus{Grant: "all", Audiences: []string{agents, orders}},
	}
}

// A client can be an actor, a subject, both, or neither. It gets only what the rule, the Realm, and its own spec all
// allow.
func TestExchangesOf(t *testing.T) {
	selector := v1beta1.ExchangeNamespaces{Selector: &v1beta1.ExchangeNamespaceSelector{MatchLabels: v1beta1.Labels{"team": "agents"}}}
	actor := func(change func(*describe.ActorRule)) describe.Exchanges {
		r := describe.ActorRule{
			Rule: "orders", Effective: true, Subjects: exchangeRule().Subjects, Audiences: []string{orders}, Scopes: []string{"orders.read", "orders.write"},
			ExchangeLimits: describe.ExchangeLimits{MaxDepth: 1},
		}
		if change != nil {
			change(&r)
		}
		return describe.Exchanges{Actor: []describe.ActorRule{r}}
	}
	subject := func(change func(*describe.SubjectRule)) describe.Exchanges {
		r := describe.SubjectRule{
			Rule: "orders", Effective: true, Actors: inNamespace("agents"), Tokens: describe.Tokens{Audiences: []string{agents}}, Audiences: []string{orders}, Scopes: []string{"orders.read"},
			ExchangeLimits: describe.ExchangeLimits{MaxDepth: 1},
			Missing:        []describe.Missing{{Kind: "scope", Values: []string{"orders.write"}, AddTo: []string{"spec.scopes of the ApiClient"}}},
		}
		if change != nil {
			change(&r)
		}
		return describe.Exchanges{Subject: []describe.SubjectRule{r}}
	}
	byIssuer := func(rule *v1beta1.Exchange) {
		rule.Subjects = v1beta1.ExchangeSubjects{Issuer: &v1beta1.ExchangeIssuer{Name: "corporate", MatchClaims: v1beta1.ClaimMatches{{Name: "azp", Value: "portal"}}}}
	}
	trust := func(realm *v1beta1.Realm, uses ...v1beta1.IssuerUse) {
		realm.Spec.TrustedIssuers = []v1beta1.TrustedIssuer{{Name: "corporate", Uses: uses}}
	}
	type change = func(*v1beta1.ApiClient, *v1beta1.Realm, *v1beta1.Exchange)
	missing := func(kind, value string, fields ...string) []describe.Missing {
		return []describe.Missing{{Kind: kind, Values: []string{value}, AddTo: fields}}
	}
	const inRealm = ` of Realm "acme"`
	for name, test := range map[string]struct {
		namespace string
		labels    map[string]string
		change    change
		want      describe.Exchanges
	}{
		"actor":   {namespace: "agents", want: actor(nil)},
		"subject": {namespace: "apps", want: subject(nil)},
		"neither": {namespace: "other"},
		"both": {namespace: "agents", change: func(_ *v1beta1.ApiClient, _ *v1beta1.Realm, rule *v1beta1.Exchange) {
			rule.Subjects.Clients = new(inNamespace("agents"))
		}, want: describe.Exchanges{
			Actor:   actor(func(r *describe.ActorRule) { r.Subjects.Clients = new(inNamespace("agents")) }).Actor,
			Subject: subject(nil).Subject,
		}},
		"client ID that is not listed": {namespace: "agents", change: func(_ *v1beta1.ApiClient, _ *v1beta1.Realm, rule *v1beta1.Exchange) {
			rule.Actors.ClientIDs = []string{"agents.other"}
		}},
		"actor and subject are the client alone": {namespace: "agents", change: func(c *v1beta1.ApiClient, _ *v1beta1.Realm, rule *v1beta1.Exchange) {
			rule.Actors = inNamespace("agents", c.EffectiveClientID())
			rule.Subjects.Clients = new(inNamespace("agents", c.EffectiveClientID()))
		}},
		"matching labels": {namespace: "agents", labels: map[string]string{"team": "agents"}, change: func(_ *v1beta1.ApiClient, _ *v1beta1.Realm, rule *v1beta1.Exchange) {
			rule.Actors.Namespaces = selector
		}, want: actor(nil)},
		"other labels": {namespace: "agents", labels: map[string]string{"team": "apps"}, change: func(_ *v1beta1.ApiClient, _ *v1beta1.Realm, rule *v1beta1.Exchange) {
			rule.Actors.Namespaces = selector
		}},
		"unknown labels": {namespace: "agents", change: func(_ *v1beta1.ApiClient, _ *v1beta1.Realm, rule *v1beta1.Exchange) {
			rule.Actors.Namespaces = selector
		}, want: actor(func(r *describe.ActorRule) { r.DependsOn = "team=agents" })},
		"unknown labels of a subject": {namespace: "apps", change: func(_ *v1beta1.ApiClient, _ *v1beta1.Realm, rule *v1beta1.Exchange) {
			rule.Subjects.Clients = &v1beta1.ExchangeClients{Namespaces: selector}
		}, want: subject(func(r *describe.SubjectRule) { r.DependsOn = "team=agents" })},
		"unknown labels and another client ID": {namespace: "agents", change: func(_ *v1beta1.ApiClient, _ *v1beta1.Realm, rule *v1beta1.Exchange) {
			rule.Actors = v1beta1.ExchangeClients{Namespaces: selector, ClientIDs: []string{"agents.other"}}
		}},
		"limits": {namespace: "agents", change: func(_ *v1beta1.ApiClient, _ *v1beta1.Realm, rule *v1beta1.Exchange) {
			rule.MaxDepth, rule.TokenLifetime, rule.SenderConstraint = 2, &v1beta1.Duration{Duration: 5 * time.Minute}, v1beta1.SenderConstraintDPoP
			rule.DeniedSubjects = []string{"apps.leaked"}
		}, want: actor(func(r *describe.ActorRule) {
			r.ExchangeLimits = describe.ExchangeLimits{MaxDepth: 2, TokenLifetime: "5m", DPoP: true, DeniedSubjects: 1}
		})},
		"client that requires DPoP": {namespace: "agents", change: func(c *v1beta1.ApiClient, _ *v1beta1.Realm, _ *v1beta1.Exchange) {
			c.Spec.SenderConstraint = v1beta1.SenderConstraintDPoP
		}, want: actor(func(r *describe.ActorRule) { r.DPoP = true })},
		"grant that requires DPoP": {namespace: "agents", change: func(_ *v1beta1.ApiClient, realm *v1beta1.Realm, _ *v1beta1.Exchange) {
			realm.Spec.Grants[0].SenderConstraint = v1beta1.SenderConstraintDPoP
		}, want: actor(func(r *describe.ActorRule) { r.DPoP = true })},
		"grant that requires DPoP, with unknown labels": {namespace: "agents", change: func(_ *v1beta1.ApiClient, realm *v1beta1.Realm, _ *v1beta1.Exchange) {
			realm.Spec.Grants[0].SenderConstraint, realm.Spec.Grants[0].Namespaces = v1beta1.SenderConstraintDPoP, *selector.Granted()
		}, want: actor(func(r *describe.ActorRule) { r.DPoP = true })},
		"actor without the audience": {namespace: "agents", change: func(c *v1beta1.ApiClient, _ *v1beta1.Realm, _ *v1beta1.Exchange) {
			c.Spec.Audiences = []string{agents}
		}, want: actor(func(r *describe.ActorRule) {
			r.Effective, r.Audiences, r.Missing = false, nil, missing("audience", orders, "spec.audiences of the ApiClient")
		})},
		"audience that the grant does not allow": {namespace: "agents", change: func(c *v1beta1.ApiClient, realm *v1beta1.Realm, _ *v1beta1.Exchange) {
			c.Spec.Audiences, realm.Spec.Grants[0].Audiences = nil, v1beta1.GrantedAudiences{agents}
		}, want: actor(func(r *describe.ActorRule) {
			r.Effective, r.Audiences, r.Missing = false, nil, missing("audience", orders, `audiences of grant "all" in spec.grants`+inRealm)
		})},
		"audiences of a grant that no longer exists": {namespace: "agents", change: func(c *v1beta1.ApiClient, _ *v1beta1.Realm, _ *v1beta1.Exchange) {
			c.Spec.Audiences, c.Status = nil, v1beta1.ApiClientStatus{Grant: "old", Audiences: []string{agents}}
		}, want: actor(func(r *describe.ActorRule) {
			r.Effective, r.Audiences, r.Missing = false, nil, missing("audience", orders, "audiences of a grant in spec.grants"+inRealm)
		})},
		"new client, whose grant is not known": {namespace: "agents", change: func(c *v1beta1.ApiClient, _ *v1beta1.Realm, _ *v1beta1.Exchange) {
			c.Spec.Audiences, c.Status = nil, v1beta1.ApiClientStatus{}
		}, want: actor(nil)},
		"actor without the scopes": {namespace: "agents", change: func(c *v1beta1.ApiClient, _ *v1beta1.Realm, _ *v1beta1.Exchange) {
			c.Spec.Scopes, c.Spec.DelegatedScopes = nil, nil
		}, want: actor(func(r *describe.ActorRule) {
			r.Effective, r.Scopes = false, nil
			r.Missing = []describe.Missing{{Kind: "scope", Values: []string{"orders.read", "orders.write"}, AddTo: []string{"spec.delegatedScopes of the ApiClient"}}}
		})},
		"scope that the grant does not allow either": {namespace: "agents", change: func(c *v1beta1.ApiClient, realm *v1beta1.Realm, _ *v1beta1.Exchange) {
			c.Spec.DelegatedScopes, realm.Spec.Grants[0].Scopes = nil, v1beta1.GrantedScopes{"agents.call", "orders.read"}
		}, want: actor(func(r *describe.ActorRule) {
			r.Scopes = []string{"orders.read"}
			r.Missing = missing("scope", "orders.write", "spec.delegatedScopes of the ApiClient", `scopes of grant "all" in spec.grants`+inRealm)
		})},
		"audience and scope that the Realm does not define": {namespace: "agents", change: func(_ *v1beta1.ApiClient, realm *v1beta1.Realm, _ *v1beta1.Exchange) {
			realm.Spec.Audiences, realm.Spec.Scopes = []string{agents}, []string{"orders.read"}
		}, want: actor(func(r *describe.ActorRule) {
			r.Effective, r.Audiences, r.Scopes = false, nil, []string{"orders.read"}
			r.Missing = append(missing("audience", orders, "spec.audiences"+inRealm), missing("scope", "orders.write", "spec.scopes"+inRealm)...)
		})},
		"audience of subjects that the Realm does not define": {namespace: "agents", change: func(_ *v1beta1.ApiClient, realm *v1beta1.Realm, _ *v1beta1.Exchange) {
			realm.Spec.Audiences = []string{orders}
		}, want: actor(func(r *describe.ActorRule) {
			r.Effective, r.Missing = false, missing("audience", agents, "spec.audiences"+inRealm)
		})},
		"required scope that the Realm does not define": {namespace: "agents", change: func(_ *v1beta1.ApiClient, _ *v1beta1.Realm, rule *v1beta1.Exchange) {
			rule.Subjects.Scopes = v1beta1.ExchangeScopes{"agents.act"}
		}, want: actor(func(r *describe.ActorRule) {
			r.Subjects.Scopes, r.Effective, r.Missing = v1beta1.ExchangeScopes{"agents.act"}, false, missing("scope", "agents.act", "spec.scopes"+inRealm)
		})},
		"Realm whose only audience is its issuer": {namespace: "agents", change: func(c *v1beta1.ApiClient, realm *v1beta1.Realm, rule *v1beta1.Exchange) {
			realm.Spec.Audiences, realm.Status.Issuer, c.Spec.Audiences = nil, orders, nil
			rule.Subjects.Audiences = v1beta1.ExchangeAudiences{orders}
		}, want: actor(func(r *describe.ActorRule) { r.Subjects.Audiences = v1beta1.ExchangeAudiences{orders} })},
		"issuer": {namespace: "agents", change: func(_ *v1beta1.ApiClient, realm *v1beta1.Realm, rule *v1beta1.Exchange) {
			byIssuer(rule)
			trust(realm, v1beta1.IssuerUseIDJAG, v1beta1.IssuerUseSubject)
		}, want: actor(func(r *describe.ActorRule) {
			rule := exchangeRule()
			byIssuer(&rule)
			r.Subjects = rule.Subjects
		})},
		"issuer without the use of the rule": {namespace: "agents", change: func(_ *v1beta1.ApiClient, realm *v1beta1.Realm, rule *v1beta1.Exchange) {
			rule.Subjects = v1beta1.ExchangeSubjects{Issuer: &v1beta1.ExchangeIssuer{Name: "corporate", Use: v1beta1.ExchangeUseIDJAG}}
			trust(realm, v1beta1.IssuerUseSubject)
		}, want: actor(func(r *describe.ActorRule) {
			r.Subjects = v1beta1.ExchangeSubjects{Issuer: &v1beta1.ExchangeIssuer{Name: "corporate", Use: v1beta1.ExchangeUseIDJAG}}
			r.Effective, r.Missing = false, missing("use", "IDJAG", `uses of issuer "corporate" in spec.trustedIssuers`+inRealm)
		})},
		"issuer that only authenticates clients": {namespace: "agents", change: func(_ *v1beta1.ApiClient, realm *v1beta1.Realm, rule *v1beta1.Exchange) {
			byIssuer(rule)
			trust(realm)
		}, want: actor(func(r *describe.ActorRule) {
			rule := exchangeRule()
			byIssuer(&rule)
			r.Subjects, r.Effective = rule.Subjects, false
			r.Missing = missing("use", "Subject", `uses of issuer "corporate" in spec.trustedIssuers`+inRealm)
		})},
		"issuer that is not trusted": {namespace: "agents", change: func(_ *v1beta1.ApiClient, _ *v1beta1.Realm, rule *v1beta1.Exchange) { byIssuer(rule) }, want: actor(func(r *describe.ActorRule) {
			rule := exchangeRule()
			byIssuer(&rule)
			r.Subjects, r.Effective, r.Missing = rule.Subjects, false, missing("issuer", "corporate", "spec.trustedIssuers"+inRealm)
		})},
		"denied subject": {namespace: "apps", change: func(c *v1beta1.ApiClient, _ *v1beta1.Realm, rule *v1beta1.Exchange) {
			rule.DeniedSubjects = []string{c.EffectiveClientID()}
		}, want: subject(func(r *describe.SubjectRule) { r.Effective, r.Denied, r.DeniedSubjects = false, true, 1 })},
		"subject denied by another rule": {namespace: "apps", change: func(c *v1beta1.ApiClient, realm *v1beta1.Realm, _ *v1beta1.Exchange) {
			denying := v1beta1.Exchange{Actors: inNamespace("tools"), Subjects: v1beta1.ExchangeSubjects{Clients: new(inNamespace("tools"))}}
			for name, audience := range map[string]string{"same-audience": orders, "other-audience": "https://other.example"} {
				denying.Name, denying.Audiences, denying.DeniedSubjects = name, v1beta1.ExchangeAudiences{audience}, []string{c.EffectiveClientID()}
				realm.Spec.Exchanges = append(realm.Spec.Exchanges, denying)
			}
		}, want: subject(func(r *describe.SubjectRule) { r.DeniedBy = []string{"same-audience"} })},
		"subject denied for an audience that the Realm does not define": {namespace: "apps", change: func(c *v1beta1.ApiClient, realm *v1beta1.Realm, rule *v1beta1.Exchange) {
			rule.Audiences = append(rule.Audiences, "https://undefined.example")
			realm.Spec.Exchanges = []v1beta1.Exchange{{
				Name: "denying", Actors: inNamespace("agents"), Subjects: v1beta1.ExchangeSubjects{Clients: new(inNamespace("tools"))},
				Audiences: v1beta1.ExchangeAudiences{"https://undefined.example"}, DeniedSubjects: []string{c.EffectiveClientID()},
			}}
		}, want: subject(func(r *describe.SubjectRule) {
			r.Missing = append(missing("audience", "https://undefined.example", "spec.audiences"+inRealm), r.Missing...)
		})},
		"earlier actor": {namespace: "apps", change: func(c *v1beta1.ApiClient, _ *v1beta1.Realm, rule *v1beta1.Exchange) {
			c.Spec.Scopes, rule.MaxDepth = nil, 2
		}, want: subject(func(r *describe.SubjectRule) {
			r.Effective, r.EarlierActor, r.Scopes, r.Missing, r.MaxDepth = false, true, nil, nil, 2
		})},
		"subject without the audience of the actors": {namespace: "apps", change: func(c *v1beta1.ApiClient, _ *v1beta1.Realm, _ *v1beta1.Exchange) {
			c.Spec.Audiences = []string{orders}
		}, want: subject(func(r *describe.SubjectRule) {
			r.Effective, r.Tokens.Audiences = false, nil
			r.Missing = append(missing("audience", agents, "spec.audiences of the ApiClient"), r.Missing...)
		})},
		"subject with a required scope": {namespace: "apps", change: func(_ *v1beta1.ApiClient, _ *v1beta1.Realm, rule *v1beta1.Exchange) {
			rule.Subjects.Scopes = v1beta1.ExchangeScopes{"agents.call"}
		}, want: subject(func(r *describe.SubjectRule) { r.Tokens.Scopes = []string{"agents.call"} })},
		"subject without a required scope": {namespace: "apps", change: func(c *v1beta1.ApiClient, _ *v1beta1.Realm, rule *v1beta1.Exchange) {
			rule.Subjects.Scopes, c.Spec.Scopes = v1beta1.ExchangeScopes{"agents.call"}, []string{"orders.read"}
		}, want: subject(func(r *describe.SubjectRule) {
			r.Effective, r.Tokens.Scopes, r.Missing[0].Values = false, []string{"agents.call"}, []string{"agents.call", "orders.write"}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			c, rule := exchangeClient(test.namespace), exchangeRule()
			realm := &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: v1beta1.RealmSpec{
				Audiences: []string{agents, orders}, Scopes: []string{"agents.call", "orders.read", "orders.write"},
				Grants: []v1beta1.Grant{{Name: "all", Namespaces: v1beta1.GrantedNamespaces{From: v1beta1.NamespacesFromAll}, Scopes: v1beta1.GrantedScopes{"*"}, Audiences: v1beta1.GrantedAudiences{"*"}}},
			}}
			if test.change != nil {
				test.change(c, realm, &rule)
			}
			realm.Spec.Exchanges = append(realm.Spec.Exchanges, rule)
			testkit.Diff(t, "Exchanges", test.want, describe.ExchangesOf(c, realm, test.labels))
			if needed := test.labels != nil || strings.Contains(name, "unknown labels"); describe.NeedsNamespaceLabels(realm) != needed {
				t.Errorf("The labels of the namespace are needed: %t, want %t", !needed, needed)
			}
		})
	}
}

// The text for people says where to add each value.
func TestMissingSaysWhereToAdd(t *testing.T) {
	for want, m := range map[string]describe.Missing{
		"Scope a is missing. Add it to b.":                 {Kind: "scope", Values: []string{"a"}, AddTo: []string{"b"}},
		"Scopes a, b are missing. Add them to c and to d.": {Kind: "scope", Values: []string{"a", "b"}, AddTo: []string{"c", "d"}},
	} {
		testkit.Diff(t, "Text", want, m.String())
	}
}
