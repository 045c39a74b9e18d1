package tenancy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

const (
	agentsAPI = "https://agents.example.com"
	ordersAPI = "https://orders.example.com"
)

// rule returns a rule that lets the clients of some namespaces act for those of another one. Their tokens
// for subjectAudience can be exchanged for tokens for audience.
func rule(name, subjects, subjectAudience, audience, scope string, actors v1beta1.ExchangeClients) v1beta1.Exchange {
	return v1beta1.Exchange{
		Name: name, Actors: actors,
		Subjects: v1beta1.ExchangeSubjects{
			Clients:   &v1beta1.ExchangeClients{Namespaces: namespacesNamed(subjects)},
			Audiences: v1beta1.ExchangeAudiences{subjectAudience},
		},
		Audiences: v1beta1.ExchangeAudiences{audience}, Scopes: v1beta1.ExchangeScopes{scope},
	}
}

func namespacesNamed(name string) v1beta1.ExchangeNamespaces {
	return v1beta1.ExchangeNamespaces{Names: []string{name}}
}

func namespacesLabeled(key, value string) v1beta1.ExchangeNamespaces {
	return v1beta1.ExchangeNamespaces{Selector: &v1beta1.ExchangeNamespaceSelector{MatchLabels: v1beta1.Labels{key: v1beta1.LabelValue(value)}}}
}

// delegation is a realm in which agents act for a portal. One agent is selected by the name of its
// namespace, the other by a label.
type delegation struct {
	inst          *install.Installation
	realm         *v1beta1.Realm
	portal, agent *v1beta1.ApiClient
	labeled       *v1beta1.ApiClient
	api           *corev1.Secret // credentials of the API that introspects tokens
}

func newDelegation(t *testing.T, inst *install.Installation) *delegation {
	t.Helper()
	d := &delegation{inst: inst}
	apps, agents, bots := inst.Env.Namespace(t), inst.Env.Namespace(t), inst.Env.Namespace(t)
	d.label(t, bots, "yes")
	d.realm = install.Realm("delegation", func(r *v1beta1.Realm) {
		r.Spec.Scopes, r.Spec.Audiences = v1beta1.Scopes{"orders.read", "orders.write"}, v1beta1.Audiences{agentsAPI, ordersAPI}
		r.Spec.Exchanges = []v1beta1.Exchange{
			rule("by-name", apps, agentsAPI, ordersAPI, "orders.read", v1beta1.ExchangeClients{Namespaces: namespacesNamed(agents)}),
			rule("by-label", apps, agentsAPI, ordersAPI, "orders.read", v1beta1.ExchangeClients{Namespaces: namespacesLabeled("agents", "yes")}),
		}
	})
	d.portal = install.ApiClient(apps, "portal", "delegation", func(c *v1beta1.ApiClient) {
		c.Spec.ClientID, c.Spec.Scopes, c.Spec.Audiences = "portal", v1beta1.Scopes{"orders.read"}, v1beta1.Audiences{agentsAPI}
	})
	acting := func(c *v1beta1.ApiClient) {
		c.Spec.DelegatedScopes, c.Spec.Audiences = v1beta1.DelegatedScopes{"orders.read"}, v1beta1.Audiences{ordersAPI}
	}
	d.agent, d.labeled = install.ApiClient(agents, "agent", "delegation", acting), install.ApiClient(bots, "bot", "delegation", acting)
	api := install.ApiClient(apps, "orders", "delegation", func(c *v1beta1.ApiClient) {
		c.Spec.Introspection.Audiences = v1beta1.Audiences{ordersAPI}
	})
	inst.Create(t, d.realm, d.portal, d.agent, d.labeled, api)
	for _, c := range []*v1beta1.ApiClient{d.portal, d.agent, d.labeled, api} {
		scenario.AwaitUsable(t, inst, c)
	}
	d.api = inst.CredentialsSecret(t, api)
	return d
}

// label sets the label of a namespace that the rule by-label selects, as an administrator.
func (d *delegation) label(t *testing.T, namespace, value string) {
	t.Helper()
	install.Change(t, d.inst, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func(n *corev1.Namespace) {
		n.Labels["agents"] = value
	})
}

func (d *delegation) change(t *testing.T, change func(rules []v1beta1.Exchange) []v1beta1.Exchange) {
	t.Helper()
	install.Change(t, d.inst, d.realm, func(r *v1beta1.Realm) { r.Spec.Exchanges = change(r.Spec.Exchanges) })
}

// exchange returns the token that an actor gets from each server for a new token of the portal.
func (d *delegation) exchange(t *testing.T, actor *corev1.Secret) []string {
	t.Helper()
	subject := d.inst.AccessToken(t, d.inst.CredentialsSecret(t, d.portal))
	tokens := make([]string, 0, 2)
	for _, s := range d.inst.Servers() {
		response, err := install.ExchangeToken(t, s, s.Client(t), actor, subject, ordersAPI)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, response.AccessToken)
	}
	return tokens
}

// awaitActive waits until every server reports a token as active, or as inactive.
func (d *delegation) awaitActive(t *testing.T, token string, want bool) {
	t.Helper()
	for _, s := range d.inst.Servers() {
		install.Eventually(t, fmt.Sprintf("%s to report active=%t", s.Name, want), func() error {
			if introspect(t, s, d.realm.Status.Issuer, d.api, token) != want {
				return errors.New("it reports the opposite")
			}
			return nil
		})
	}
}

// Everything that allowed an exchange is checked again while its token lives, and for new exchanges. When it
// is allowed again, so is the token, except for one of a deleted client.
func TestExchangesEnd(t *testing.T) {
	d := newDelegation(t, scenario.Running(t, env.Start(t)))
	d.inst.AwaitReady(t, d.realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	suspend := func(c *v1beta1.ApiClient) func(*testing.T, bool) {
		return func(t *testing.T, ended bool) {
			install.Change(t, d.inst, c, func(c *v1beta1.ApiClient) { c.Spec.Suspend = ended })
		}
	}
	rules := func(end func(*v1beta1.Exchange)) func(*testing.T, bool) {
		before := *d.realm.Spec.Exchanges[0].DeepCopy()
		return func(t *testing.T, ended bool) {
			d.change(t, func(all []v1beta1.Exchange) []v1beta1.Exchange {
				all[0] = *before.DeepCopy()
				if ended {
					end(&all[0])
				}
				return all
			})
		}
	}
	for name, tc := range map[string]struct {
		actor *v1beta1.ApiClient
		set   func(t *testing.T, ended bool)
	}{
		"label of the actor's namespace": {actor: d.labeled, set: func(t *testing.T, ended bool) {
			d.label(t, d.labeled.Namespace, map[bool]string{true: "no", false: "yes"}[ended])
		}},
		"another selector": {actor: d.labeled, set: func(t *testing.T, ended bool) {
			d.change(t, func(all []v1beta1.Exchange) []v1beta1.Exchange {
				all[1].Actors.Namespaces = namespacesLabeled("agents", map[bool]string{true: "others", false: "yes"}[ended])
				return all
			})
		}},
		"narrowed scopes":   {actor: d.agent, set: rules(func(r *v1beta1.Exchange) { r.Scopes = v1beta1.ExchangeScopes{"orders.write"} })},
		"narrowed actors":   {actor: d.agent, set: rules(func(r *v1beta1.Exchange) { r.Actors.ClientIDs = []string{"other"} })},
		"removed rule":      {actor: d.agent, set: rules(func(r *v1beta1.Exchange) { r.Name = "renamed"; r.Actors.ClientIDs = []string{"other"} })},
		"denied subject":    {actor: d.agent, set: rules(func(r *v1beta1.Exchange) { r.DeniedSubjects = []string{d.portal.EffectiveClientID()} })},
		"required DPoP":     {actor: d.agent, set: rules(func(r *v1beta1.Exchange) { r.SenderConstraint = v1beta1.SenderConstraintDPoP })},
		"suspended subject": {actor: d.agent, set: suspend(d.portal)},
		"suspended actor":   {actor: d.agent, set: suspend(d.agent)},
	} {
		t.Run(name, func(t *testing.T) {
			actor := d.inst.CredentialsSecret(t, tc.actor)
			tokens := d.exchange(t, actor)
			for _, token := range tokens {
				d.awaitActive(t, token, true)
			}
			subject := d.inst.AccessToken(t, d.inst.CredentialsSecret(t, d.portal))
			tc.set(t, true)
			for _, token := range tokens {
				d.awaitActive(t, token, false)
			}
			for _, s := range d.inst.Servers() {
				if response, err := install.ExchangeToken(t, s, s.Client(t), actor, subject, ordersAPI); err != nil || response.AccessToken != "" {
					t.Errorf("%s still exchanges tokens: %+v, %v", s.Name, response, err)
				}
			}
			tc.set(t, false)
			for _, token := range tokens {
				d.awaitActive(t, token, true)
			}
			if again := d.exchange(t, actor); slices.Contains(again, "") {
				t.Error("a token server doesn't exchange tokens again")
			}
		})
	}
	t.Run("recreated subject", func(t *testing.T) {
		actor := d.inst.CredentialsSecret(t, d.agent)
		token := d.exchange(t, actor)[0]
		d.awaitActive(t, token, true)
		d.inst.Delete(t, d.portal)
		d.awaitActive(t, token, false)
		d.portal = install.ApiClient(d.portal.Namespace, "portal-2", "delegation", func(c *v1beta1.ApiClient) { c.Spec = d.portal.Spec })
		d.inst.Create(t, d.portal)
		scenario.AwaitUsable(t, d.inst, d.portal)
		d.awaitActive(t, d.exchange(t, actor)[0], true)
		d.awaitActive(t, token, false)
	})
	t.Run("missing parts", func(t *testing.T) { testMissingParts(t, d) })
}

// A rule that refers to what doesn't exist is reported with what to do, and other rules keep working.
func testMissingParts(t *testing.T, d *delegation) {
	d.change(t, func(all []v1beta1.Exchange) []v1beta1.Exchange {
		missing := rule("missing", d.portal.Namespace, agentsAPI, "https://nowhere.example.com", "refunds", v1beta1.ExchangeClients{
			Namespaces: namespacesNamed(d.agent.Namespace), ClientIDs: []string{"late-agent"},
		})
		foreign := rule("foreign", d.portal.Namespace, agentsAPI, ordersAPI, "orders.read", v1beta1.ExchangeClients{Namespaces: namespacesNamed(d.agent.Namespace)})
		foreign.Subjects = v1beta1.ExchangeSubjects{Issuer: &v1beta1.ExchangeIssuer{Name: "corporate", AnyClient: true}}
		return append(all, missing, foreign)
	})
	d.awaitResolved(t, metav1.ConditionFalse, `Rule "missing"`, "https://nowhere.example.com", "spec.audiences", "refunds", "spec.scopes", "late-agent", `Rule "foreign"`, `"corporate"`, "spec.trustedIssuers")
	d.inst.AwaitReady(t, d.realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	if slices.Contains(d.exchange(t, d.inst.CredentialsSecret(t, d.agent)), "") {
		t.Error("another rule doesn't work")
	}
	install.Change(t, d.inst, d.realm, func(r *v1beta1.Realm) {
		r.Spec.Audiences = append(r.Spec.Audiences, "https://nowhere.example.com")
		r.Spec.Scopes = append(r.Spec.Scopes, "refunds")
		r.Spec.Exchanges = r.Spec.Exchanges[:3]
	})
	d.awaitResolved(t, metav1.ConditionFalse, `Rule "missing" in spec.exchanges: no ApiClient in the selected namespaces has these client IDs: late-agent.`)
	d.inst.Create(t, install.ApiClient(d.agent.Namespace, "late", "delegation", func(c *v1beta1.ApiClient) { c.Spec.ClientID = "late-agent" }))
	d.awaitResolved(t, metav1.ConditionTrue)
	install.Change(t, d.inst, d.realm, func(r *v1beta1.Realm) { r.Spec.Exchanges = nil })
	install.Eventually(t, "the condition to be removed", func() error {
		if err := d.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(d.realm), d.realm); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(d.realm.Status.Conditions, string(v1beta1.ConditionExchangesResolved)); c != nil {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// awaitResolved waits until the condition of the realm's exchanges has a status and a message with words.
func (d *delegation) awaitResolved(t *testing.T, status metav1.ConditionStatus, words ...string) {
	t.Helper()
	install.Eventually(t, fmt.Sprintf("ExchangesResolved to be %s with %q", status, words), func() error {
		if err := d.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(d.realm), d.realm); err != nil {
			return err
		}
		c := meta.FindStatusCondition(d.realm.Status.Conditions, string(v1beta1.ConditionExchangesResolved))
		if c == nil || c.Status != status || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(c.Message, w) }) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// An attacker has a token of the owner's client, and tries to exchange it as an actor that no rule of the
// owner selects: with the client ID of the agent, with labels, with its own rule, and with scopes and
// names that it isn't granted.
func testForeignExchange(t *testing.T, b *bank) {
	attacker, owner, agents := newTenant(t, b.inst), newTenant(t, b.inst), newTenant(t, b.inst)
	agentID := "agent-of-" + owner.namespace
	b.grant(t, owner)
	b.grant(t, agents, agentID)
	b.grant(t, attacker, agentID)
	rules := []v1beta1.Exchange{
		rule("owner", owner.namespace, testingID, productionID, "read", v1beta1.ExchangeClients{Namespaces: namespacesNamed(agents.namespace), ClientIDs: []string{agentID}}),
		rule("labeled", owner.namespace, testingID, productionID, "read", v1beta1.ExchangeClients{Namespaces: namespacesLabeled("agents", owner.namespace)}),
		rule("attacker", attacker.namespace, testingID, productionID, "admin", v1beta1.ExchangeClients{Namespaces: namespacesNamed(attacker.namespace)}),
	}
	b.change(t, func(r *v1beta1.Realm) { r.Spec.Exchanges = append(r.Spec.Exchanges, rules...) })

	forTesting := func(c *v1beta1.ApiClient) {
		c.Spec.Scopes, c.Spec.Audiences = v1beta1.Scopes{"read", "admin"}, v1beta1.Audiences{testingID}
	}
	acting := func(c *v1beta1.ApiClient) {
		c.Spec.DelegatedScopes, c.Spec.Audiences = v1beta1.DelegatedScopes{"read", "admin"}, v1beta1.Audiences{productionID}
	}
	labeled := func(c *v1beta1.ApiClient) { c.Labels = map[string]string{"agents": owner.namespace} }
	subject := newHolder(t, b.inst, owner.apiClient("shop", bankName, "", forTesting))
	own := newHolder(t, b.inst, attacker.apiClient("shop", bankName, "", forTesting))
	thieves := map[string]*holder{
		"the agent's client ID": newHolder(t, b.inst, attacker.apiClient("twin", bankName, agentID, acting)),
		"labels of the rule":    newHolder(t, b.inst, attacker.apiClient("labeled", bankName, "", acting, labeled)),
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: attacker.namespace, Labels: map[string]string{"agents": owner.namespace}}}
	if err := attacker.Patch(t.Context(), namespace, client.Merge); !apierrors.IsForbidden(err) {
		t.Errorf("the attacker changes the labels of its namespace: %v", err)
	}
	for name, thief := range thieves {
		for _, s := range b.inst.Servers() {
			response, err := install.ExchangeToken(t, s, s.Client(t), thief.credentials, subject.token, productionID)
			if err != nil || response.AccessToken != "" || response.Error != "invalid_request" {
				t.Errorf("%s, %s: the response is %+v, %v", s.Name, name, response, err)
			}
			// It can act for itself by its own rule, which shows that the other rule is what is missing.
			if response, err := install.ExchangeToken(t, s, s.Client(t), thief.credentials, own.token, productionID); err != nil || response.Scope != "admin" {
				t.Errorf("%s, %s: its own exchange returns %+v, %v", s.Name, name, response, err)
			}
		}
	}
	// The owner's agent gets the client ID when the attacker releases it, and can act.
	if err := attacker.Delete(t.Context(), thieves["the agent's client ID"].client); err != nil {
		t.Fatal(err)
	}
	agent := newHolder(t, b.inst, agents.apiClient("agent", bankName, agentID, acting))
	for _, s := range b.inst.Servers() {
		response, err := install.ExchangeToken(t, s, s.Client(t), agent.credentials, subject.token, productionID)
		if err != nil || response.Scope != "read" {
			t.Errorf("%s: the agent gets %+v, %v", s.Name, response, err)
		}
		// The agent's rule and the attacker's rule are never combined.
		response, err = install.ExchangeToken(t, s, s.Client(t), agent.credentials, own.token, productionID)
		if err != nil || response.AccessToken != "" {
			t.Errorf("%s: the agent acts for the attacker: %+v, %v", s.Name, response, err)
		}
	}

	external := install.ApiClient(attacker.namespace, "external", bankName, func(c *v1beta1.ApiClient) { c.Spec.ClientID = "ext:" + ciName + ":alice" })
	if err := attacker.Create(t.Context(), external); !apierrors.IsInvalid(err) {
		t.Errorf("a client is named like an external subject: %v", err)
	}
	b.revoke(t, attacker)
	b.change(t, func(r *v1beta1.Realm) {
		limited := grantTo(attacker.namespace, attacker)
		limited.Scopes = v1beta1.GrantedScopes{"read"}
		r.Spec.Grants = append(r.Spec.Grants, limited)
		r.Spec.Exchanges = slices.DeleteFunc(r.Spec.Exchanges, func(e v1beta1.Exchange) bool {
			return slices.ContainsFunc(rules, func(own v1beta1.Exchange) bool { return own.Name == e.Name })
		})
	})
	// Until the change reaches the operator's cache, a new client gets the earlier grant.
	b.inst.AwaitReady(t, thieves["labels of the rule"].client, metav1.ConditionFalse, v1beta1.ReasonNotGranted)
	expectRejected(t, b.inst, attacker.apiClient("greedy", bankName, "", acting)(t), v1beta1.ReasonNotGranted)
}
