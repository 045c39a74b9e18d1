package tenancy_test

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// An attacker creates a client with an ID that it expects another tenant to get. Without a grant it
// doesn't hold the ID, and a later grant comes too late.
func testSquatBeforeGrant(t *testing.T, b *bank) {
	attacker, owner := newTenant(t, b.inst), newTenant(t, b.inst)
	squatter := attacker.apiClient("squatter", bankName, "invoices")(t)
	expectRejected(t, b.inst, squatter, v1beta1.ReasonNamespaceNotAllowed)

	b.grant(t, owner, "invoices")
	invoices := newHolder(t, b.inst, owner.apiClient("invoices", bankName, "invoices"))
	b.grant(t, attacker, "invoices")
	expectRejected(t, b.inst, squatter, v1beta1.ReasonClientIDConflict)
	invoices.expectUnharmed(t)
}

// An attacker has a grant that lists the victim's client ID, and secrets that it knows itself.
func testSquatAfterGrant(t *testing.T, b *bank) {
	attacker := newTenant(t, b.inst)
	b.grant(t, attacker, paymentsID)
	own, hash := hashedSecret(t)
	for name, change := range map[string]func(*v1beta1.ApiClient){
		"generated": withEverything,
		"payments":  withEverything, // the name of the victim
		"hashed":    func(c *v1beta1.ApiClient) { withEverything(c); c.Spec.Secret = hash },
	} {
		expectRejected(t, b.inst, attacker.apiClient(name, bankName, paymentsID, change)(t), v1beta1.ReasonClientIDConflict)
	}
	expectNoToken(t, b.inst, b.victims[0].credentialsWith(own))
}

// A client that is deleted and created again is a new client: an attacker that stole a secret and a
// token of the old one has nothing of the new one.
func testRecreatedVictim(t *testing.T, b *bank) {
	owner, competitor := newTenant(t, b.inst), newTenant(t, b.inst)
	b.grant(t, owner, "recreated")
	create := owner.apiClient("recreated", bankName, "recreated")
	before := newHolder(t, b.inst, create)
	waiting := competitor.apiClient("recreated", bankName, "recreated")(t)
	expectRejected(t, b.inst, waiting, v1beta1.ReasonNamespaceNotAllowed)
	if err := owner.Delete(t.Context(), before.client); err != nil {
		t.Fatal(err)
	}
	after := newHolder(t, b.inst, create)
	if after.claims.Identity == before.claims.Identity {
		t.Errorf("the new client has the identity of the old one")
	}
	expectSuperseded(t, b.inst, before, after)
	expectRejected(t, b.inst, waiting, v1beta1.ReasonNamespaceNotAllowed)
}

// An attacker gets tokens for an ID, deletes its client, and waits until another tenant gets the ID.
func testTokensOfPredecessor(t *testing.T, b *bank) {
	attacker, owner := newTenant(t, b.inst), newTenant(t, b.inst)
	b.grant(t, attacker, "heritage")
	b.grant(t, owner, "heritage")
	_, hash := hashedSecret(t)
	create := attacker.apiClient("heritage", bankName, "heritage", withEverything)
	before := newHolder(t, b.inst, create)
	other := owner.apiClient("heir", bankName, "heritage", withEverything)(t)
	expectRejected(t, b.inst, other, v1beta1.ReasonClientIDConflict)
	if err := attacker.Delete(t.Context(), before.client); err != nil {
		t.Fatal(err)
	}
	after := holderOf(t, b.inst, other)
	expectSuperseded(t, b.inst, before, after)

	again := attacker.apiClient("heritage", bankName, "heritage", func(c *v1beta1.ApiClient) { c.Spec.Secret = hash })(t)
	expectRejected(t, b.inst, again, v1beta1.ReasonClientIDConflict)
	after.expectUnharmed(t)
}

// expectSuperseded checks that nothing of the previous holder of a client ID is accepted for the
// present one.
func expectSuperseded(t *testing.T, inst *install.Installation, before, after *holder) {
	t.Helper()
	expectNoToken(t, inst, before.credentials)
	for _, s := range inst.Servers() {
		if valid, err := verify(t.Context(), s.Client(t), before.claims.Issuer, before.token); err != nil || valid {
			t.Errorf("%s accepts a token of the previous holder: %t, %v", s.Name, valid, err)
		}
		if introspect(t, s, after.claims.Issuer, after.credentials, before.token) {
			t.Errorf("%s reports a token of the previous holder as active", s.Name)
		}
	}
}

// An attacker creates an object from the victim's manifest, as a restored backup would: with its
// metadata and its status.
func testRestoredObject(t *testing.T, b *bank) {
	attacker := newTenant(t, b.inst)
	b.grant(t, attacker, paymentsID)
	manifest := b.victims[0].client.DeepCopy()
	manifest.Namespace, manifest.ResourceVersion, manifest.ManagedFields = attacker.namespace, "", nil
	manifest.CreationTimestamp = metav1.NewTime(time.Unix(1e9, 0))
	attacker.create(t, manifest)
	if manifest.UID == b.victims[0].client.UID || manifest.Status.ClientID != "" {
		t.Errorf("the object has UID %s and status %+v", manifest.UID, manifest.Status)
	}
	expectRejected(t, b.inst, manifest, v1beta1.ReasonClientIDConflict)

	secret := b.victims[0].credentials.DeepCopy()
	secret.Namespace, secret.ResourceVersion, secret.ManagedFields = attacker.namespace, "", nil
	own, _ := hashedSecret(t)
	secret.Data[v1beta1.SecretKeyClientSecret] = []byte(own)
	attacker.create(t, secret)
	install.Change(t, b.inst, manifest, func(c *v1beta1.ApiClient) { c.Spec.Description = "reconcile again" })
	b.inst.AwaitReady(t, manifest, metav1.ConditionFalse, v1beta1.ReasonClientIDConflict)
	expectNoToken(t, b.inst, b.victims[0].credentialsWith(own))
}

// A grant selects namespaces by labels, and an attacker may change the labels of its namespace.
func testNamespaceLabelChange(t *testing.T, b *bank) {
	attacker := newTenant(t, b.inst)
	b.change(t, func(r *v1beta1.Realm) {
		r.Spec.Grants = append(r.Spec.Grants, v1beta1.Grant{
			Name:       "by-label",
			Namespaces: v1beta1.GrantedNamespaces{Selector: &v1beta1.NamespaceSelector{MatchLabels: map[string]v1beta1.LabelValue{"tier": "gold"}}},
			Scopes:     v1beta1.GrantedScopes{"*"}, Audiences: v1beta1.GrantedAudiences{"*"}, ClientIDs: []string{paymentsID},
		})
	})
	c := attacker.apiClient("payments", bankName, paymentsID)(t)
	expectRejected(t, b.inst, c, v1beta1.ReasonNamespaceNotAllowed)

	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "patch"}}
	labeler := newUser(t, b.inst, attacker.namespace, "labeler", newRole(t, b.inst, "labeler", rule))
	label := func(value string) {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"tier":%s}}}`, value))
		install.Eventually(t, "permission to label", func() error {
			return labeler.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: attacker.namespace}}, patch)
		})
	}
	label(`"gold"`)
	expectRejected(t, b.inst, c, v1beta1.ReasonClientIDConflict)
	label("null")
	expectRejected(t, b.inst, c, v1beta1.ReasonNamespaceNotAllowed)
}

// A holder that loses its grant gets no tokens, but an attacker that waits for the ID doesn't get it
// either. When the holder regains the grant, it is the same client.
func testLostAndRegainedGrant(t *testing.T, b *bank) {
	attacker, owner := newTenant(t, b.inst), newTenant(t, b.inst)
	b.grant(t, attacker, "kept")
	b.grant(t, owner, "kept")
	kept := newHolder(t, b.inst, owner.apiClient("kept", bankName, "kept"))
	waiting := attacker.apiClient("waiting", bankName, "kept")(t)
	expectRejected(t, b.inst, waiting, v1beta1.ReasonClientIDConflict)

	b.revoke(t, owner)
	b.inst.AwaitReady(t, kept.client, metav1.ConditionFalse, v1beta1.ReasonNamespaceNotAllowed)
	awaitNoToken(t, b.inst, kept.credentials)
	b.inst.AwaitValid(t, bankName, kept.token, false)
	expectRejected(t, b.inst, attacker.apiClient("another", bankName, "kept")(t), v1beta1.ReasonClientIDConflict)
	if err := attacker.Delete(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	expectRejected(t, b.inst, attacker.apiClient("waiting", bankName, "kept")(t), v1beta1.ReasonClientIDConflict)

	b.grant(t, owner, "kept")
	b.inst.AwaitReady(t, kept.client, metav1.ConditionTrue, v1beta1.ReasonReady)
	kept.expectUnharmed(t)
}

// An attacker may use every client ID with a prefix, even the empty one. This doesn't include the
// default client IDs of another namespace, whether they are taken or not.
func testPrefixesAgainstDefaultIDs(t *testing.T, b *bank) {
	attacker := newTenant(t, b.inst)
	ledger := b.victims[1].client
	later := b.owner() + ".later"
	b.grant(t, attacker, "*", b.owner()+"*", b.owner()+".*")
	for name, id := range map[string]string{"taken": ledger.EffectiveClientID(), "free": later} {
		expectRejected(t, b.inst, attacker.apiClient(name, bankName, id)(t), v1beta1.ReasonNotGranted)
	}
	newHolder(t, b.inst, attacker.apiClient("own", bankName, "own"))

	owner := &tenant{Client: b.inst.Env.Client, inst: b.inst, namespace: b.owner()}
	newHolder(t, b.inst, owner.apiClient("later", bankName, ""))

	// Even an entry that lists the ID exactly doesn't give away an ID that is held.
	b.change(t, func(r *v1beta1.Realm) {
		g := grantTo("exact", attacker, ledger.EffectiveClientID(), later)
		r.Spec.Grants = append(r.Spec.Grants, g)
	})
	for _, name := range []string{"taken", "free"} {
		c := &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: attacker.namespace, Name: name}}
		expectRejected(t, b.inst, c, v1beta1.ReasonClientIDConflict)
	}
}

// An attacker has two grants: admin for the test API, and read for the production API. It requests
// admin for the production API.
func testCombinedGrants(t *testing.T, b *bank) {
	attacker := newTenant(t, b.inst)
	b.change(t, func(r *v1beta1.Realm) {
		first, second := grantTo("combined-test", attacker), grantTo("combined-production", attacker)
		first.Scopes, first.Audiences = []string{"admin"}, []string{testingID}
		second.Scopes, second.Audiences = []string{"read"}, []string{productionID}
		r.Spec.Grants = append(r.Spec.Grants, first, second)
	})
	for name, change := range map[string]func(*v1beta1.ApiClient){
		"both": func(c *v1beta1.ApiClient) {
			c.Spec.Scopes, c.Spec.Audiences = []string{"admin"}, []string{productionID}
		},
		"all-scopes": func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{"admin", "read"} },
		"all-audiences": func(c *v1beta1.ApiClient) {
			c.Spec.Scopes, c.Spec.Audiences = []string{"admin"}, []string{testingID, productionID}
		},
		"introspection": func(c *v1beta1.ApiClient) {
			c.Spec.Scopes, c.Spec.Audiences, c.Spec.Introspection.Audiences = []string{"admin"}, []string{testingID}, []string{productionID}
		},
	} {
		expectRejected(t, b.inst, attacker.apiClient(name, bankName, "", change)(t), v1beta1.ReasonNotGranted)
	}
	admin := newHolder(t, b.inst, attacker.apiClient("admin", bankName, "", func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{"admin"} }))
	if admin.claims.Audience != testingID || admin.claims.Scope != "admin" {
		t.Errorf("the token has audience %v and scope %q", admin.claims.Audience, admin.claims.Scope)
	}
}

// A tenant can release only its own client.
func testReleasedClients(t *testing.T, b *bank) {
	attacker, owner := newTenant(t, b.inst), newTenant(t, b.inst)
	b.grant(t, attacker, paymentsID, "released")
	b.grant(t, owner, "released")
	release := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"2999-01-01T00:00:00Z"}}}`, v1beta1.ReleaseAnnotation))
	for _, victim := range []client.Object{install.Realm(bankName), b.victims[0].client} {
		if err := attacker.Patch(t.Context(), victim, release); !apierrors.IsForbidden(err) {
			t.Errorf("a tenant that releases %T gets %v, want 403", victim, err)
		}
	}

	competitor := attacker.apiClient("payments", bankName, paymentsID)(t)
	expectRejected(t, b.inst, competitor, v1beta1.ReasonClientIDConflict)
	install.Change(t, b.inst, competitor, func(c *v1beta1.ApiClient) { install.Release(c) })
	b.expectUnharmed(t)

	// A client that loses its grant keeps its ID until the Realm releases it.
	before := newHolder(t, b.inst, attacker.apiClient("released", bankName, "released"))
	waiting := owner.apiClient("waiting", bankName, "released")(t)
	expectRejected(t, b.inst, waiting, v1beta1.ReasonClientIDConflict)
	install.Change(t, b.inst, before.client, func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{"undefined"} })
	b.inst.AwaitReady(t, before.client, metav1.ConditionFalse, v1beta1.ReasonScopeNotInRealm)
	expectRejected(t, b.inst, waiting, v1beta1.ReasonClientIDConflict)
	install.Change(t, b.inst, before.client, func(c *v1beta1.ApiClient) { install.Release(c) })
	after := holderOf(t, b.inst, waiting)
	expectSuperseded(t, b.inst, before, after)
	// It doesn't come back by being created again.
	if err := attacker.Delete(t.Context(), before.client); err != nil {
		t.Fatal(err)
	}
	expectRejected(t, b.inst, attacker.apiClient("released", bankName, "released")(t), v1beta1.ReasonClientIDConflict)
	after.expectUnharmed(t)
}

// hashedSecret returns a new client secret and a source with its hash.
func hashedSecret(t *testing.T) (string, *v1beta1.ClientSecretSource) {
	t.Helper()
	secret, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := clientsecret.Hash(secret, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return secret, &v1beta1.ClientSecretSource{Hashed: []v1beta1.HashedSecret{{ID: "own", Hash: verifier.String()}}}
}
