package tenancy_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// An attacker has everything in another realm. There it gets the victim's client ID, but its tokens
// and secrets count for nothing in the victim's realm.
func testOtherRealm(t *testing.T, b *bank) {
	attacker := newTenant(t, b.inst)
	b.inst.Create(t, install.Realm("other", func(r *v1beta1.Realm) {
		r.Spec.Scopes, r.Spec.Audiences = []string{"read", "admin"}, []string{productionID}
		r.Spec.Grants = []v1beta1.Grant{grantTo("all", attacker, "*")}
	}))
	twin := newHolder(t, b.inst, attacker.apiClient("payments", "other", paymentsID, withEverything))
	victim := b.victims[0]
	expectNoToken(t, b.inst, victim.credentialsWith(string(twin.credentials.Data[v1beta1.SecretKeyClientSecret])))
	for _, s := range b.inst.Servers() {
		if valid, err := verify(t.Context(), s.Client(t), victim.claims.Issuer, twin.token); err != nil || valid {
			t.Errorf("%s accepts a token of another realm: %t, %v", s.Name, valid, err)
		}
		if introspect(t, s, twin.claims.Issuer, twin.credentials, victim.token) {
			t.Errorf("%s introspects a token of another realm", s.Name)
		}
	}
}

// A realm is deleted and created again with the same name. An attacker that had a grant of the old
// one keeps nothing, and the client of the other tenant is served again.
func testDeletedRealm(t *testing.T, b *bank) {
	attacker, owner := newTenant(t, b.inst), newTenant(t, b.inst)
	realm := func(grants ...v1beta1.Grant) *v1beta1.Realm {
		return install.Realm("phoenix", func(r *v1beta1.Realm) { r.Spec.Grants = grants })
	}
	first := realm(grantTo("attacker", attacker, "ashes"))
	b.inst.Create(t, first)
	before := newHolder(t, b.inst, attacker.apiClient("ashes", "phoenix", "ashes"))
	waiting := owner.apiClient("ashes", "phoenix", "ashes")(t)
	expectRejected(t, b.inst, waiting, v1beta1.ReasonNamespaceNotAllowed)

	b.inst.Delete(t, first)
	b.inst.AwaitReady(t, before.client, metav1.ConditionFalse, v1beta1.ReasonRealmNotFound)
	b.inst.Create(t, realm(grantTo("owner", owner, "ashes")))
	after := holderOf(t, b.inst, waiting)
	b.inst.AwaitReady(t, before.client, metav1.ConditionFalse, v1beta1.ReasonNamespaceNotAllowed)
	expectSuperseded(t, b.inst, before, after)
}

// An attacker has a service account of the same name as the one with which the victim authenticates.
func testForeignServiceAccount(t *testing.T, b *bank) {
	attacker, owner := newTenant(t, b.inst), newTenant(t, b.inst)
	b.grant(t, attacker)
	b.grant(t, owner)
	byAccount := func(c *v1beta1.ApiClient) {
		c.Spec.Identities = install.ServiceAccounts("robot")
	}
	tokens, clients := map[*tenant]string{}, map[*tenant]*v1beta1.ApiClient{}
	for _, u := range []*tenant{owner, attacker} {
		pod := install.CreatePod(t, b.inst.Env.Client, u.namespace, "robot")
		clients[u] = u.apiClient("robot", bankName, "", byAccount)(t)
		b.inst.AwaitReady(t, clients[u], metav1.ConditionTrue, v1beta1.ReasonReady)
		tokens[u] = install.PodToken(t, u, pod, b.issuer(bankName))
	}
	// Without a client ID, each token selects the client in its own namespace.
	for u, token := range tokens {
		b.awaitClientOf(t, "", token, clients[u])
	}
	for _, s := range b.inst.Servers() {
		for user, want := range map[*tenant]bool{owner: true, attacker: false} {
			response, err := install.RequestTokenByAssertion(t, s, s.Client(t), b.issuer(bankName)+"/oauth2/token", clients[owner].Status.ClientID, tokens[user])
			if err != nil || (response.AccessToken != "") != want {
				t.Errorf("%s responds with %+v, %v, want a token: %t", s.Name, response, err, want)
			}
		}
	}
}

// A client introspects only its own tokens and those for the audiences that its grant allows it to
// introspect.
func testForeignIntrospection(t *testing.T, b *bank) {
	attacker := newTenant(t, b.inst)
	b.change(t, func(r *v1beta1.Realm) {
		g := grantTo("introspection", attacker)
		g.Audiences = []string{testingID}
		r.Spec.Grants = append(r.Spec.Grants, g)
	})
	introspecting := func(audience string) func(*v1beta1.ApiClient) {
		return func(c *v1beta1.ApiClient) { c.Spec.Introspection.Audiences = []string{audience} }
	}
	expectRejected(t, b.inst, attacker.apiClient("spy", bankName, "", introspecting(productionID))(t), v1beta1.ReasonNotGranted)
	for name, change := range map[string][]func(*v1beta1.ApiClient){"curious": nil, "api": {introspecting(testingID)}} {
		h := newHolder(t, b.inst, attacker.apiClient(name, bankName, "", change...))
		for _, s := range b.inst.Servers() {
			for _, v := range b.victims {
				if introspect(t, s, h.claims.Issuer, h.credentials, v.token) {
					t.Errorf("%s tells %s about a token of %s", s.Name, name, v.claims.ClientID)
				}
			}
			if !introspect(t, s, h.claims.Issuer, h.credentials, h.token) {
				t.Errorf("%s doesn't tell %s about its own token", s.Name, name)
			}
		}
	}
}
