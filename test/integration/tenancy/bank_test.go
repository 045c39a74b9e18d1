package tenancy_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/issuer"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

const (
	bankName     = "bank"
	paymentsID   = "payments" // the explicit client ID of a victim
	productionID = "https://api.example.com"
	testingID    = "https://test.example.com"
)

// bank is a realm that victims and attackers share.
type bank struct {
	inst    *install.Installation
	victims []*holder
	ci      *issuer.Static // a trusted issuer of the realm

	mu      sync.Mutex               // serializes changes to the realm
	granted map[*testing.T][]*tenant // the tenants with a grant, by attempt
}

func newBank(t *testing.T, inst *install.Installation) *bank {
	t.Helper()
	b := &bank{inst: inst, granted: map[*testing.T][]*tenant{}, ci: issuer.NewStatic(t, ciName, ciURL)}
	owner := newTenant(t, inst)
	inst.Create(t, install.Realm(bankName, func(r *v1beta1.Realm) {
		r.Spec.Scopes = []string{"read", "admin"}
		r.Spec.Audiences = []string{productionID, testingID}
		r.Spec.TrustedIssuers = []v1beta1.TrustedIssuer{b.ci.Trusted(t)}
		r.Spec.Grants = []v1beta1.Grant{grantTo("victim", owner, paymentsID)}
	}))
	b.victims = []*holder{
		newHolder(t, inst, owner.apiClient("payments", bankName, paymentsID, withEverything)),
		newHolder(t, inst, owner.apiClient("ledger", bankName, "", withEverything, byWorkload(ledgerSubject), withSecret)),
	}
	b.victims[1].workload = b.workload(t, ledgerSubject, nil)
	b.awaitClientOf(t, "", b.victims[1].workload, b.victims[1].client)
	return b
}

// withEverything makes a client request every scope, for a single audience.
func withEverything(c *v1beta1.ApiClient) {
	c.Spec.Scopes = []string{"read", "admin"}
	c.Spec.Audiences = []string{productionID}
}

// withSecret gives a client a generated secret beside its identities.
func withSecret(c *v1beta1.ApiClient) { c.Spec.Secret = install.GeneratedSecret() }

// owner returns the namespace of the victims.
func (b *bank) owner() string { return b.victims[0].client.Namespace }

// change changes the realm as its administrator.
func (b *bank) change(t *testing.T, change func(*v1beta1.Realm)) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	install.Change(t, b.inst, install.Realm(bankName), change)
}

// grant gives a tenant every scope and the given client IDs.
func (b *bank) grant(t *testing.T, to *tenant, clientIDs ...string) {
	t.Helper()
	b.change(t, func(r *v1beta1.Realm) {
		r.Spec.Grants = append(r.Spec.Grants, grantTo(to.namespace, to, clientIDs...))
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.granted[t] = append(b.granted[t], to)
}

// revokeAll removes the grants of an attempt, because a realm can have only 32.
func (b *bank) revokeAll(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	tenants := b.granted[t]
	b.mu.Unlock()
	for _, u := range tenants {
		b.revoke(t, u)
	}
}

// revoke removes the grant of a tenant.
func (b *bank) revoke(t *testing.T, from *tenant) {
	t.Helper()
	b.change(t, func(r *v1beta1.Realm) {
		r.Spec.Grants = slices.DeleteFunc(r.Spec.Grants, func(g v1beta1.Grant) bool { return g.Name == from.namespace })
	})
}

func grantTo(name string, to *tenant, clientIDs ...string) v1beta1.Grant {
	return v1beta1.Grant{Name: name, Namespaces: v1beta1.GrantedNamespaces{Names: []string{to.namespace}}, Scopes: v1beta1.GrantedScopes{"*"}, Audiences: v1beta1.GrantedAudiences{"*"}, ClientIDs: clientIDs, Issuers: []string{"*"}}
}

// tenant is a user with the role "edit" in one namespace, which includes ApiClients and Secrets.
type tenant struct {
	client.Client

	inst      *install.Installation
	namespace string
}

func newTenant(t *testing.T, inst *install.Installation) *tenant {
	t.Helper()
	namespace := inst.Env.Namespace(t)
	return &tenant{Client: newUser(t, inst, namespace, "tenant", "edit"), inst: inst, namespace: namespace}
}

// newUser returns a client with the permissions of a ClusterRole in one namespace only.
func newUser(t *testing.T, inst *install.Installation, namespace, name, role string) client.Client {
	t.Helper()
	user := name + "-of-" + namespace
	inst.Create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	config := rest.CopyConfig(inst.Env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	c, err := client.New(config, client.Options{Scheme: inst.Env.Client.Scheme(), Mapper: inst.Env.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newRole creates a ClusterRole with one rule and returns its name.
func newRole(t *testing.T, inst *install.Installation, name string, rule rbacv1.PolicyRule) string {
	t.Helper()
	inst.Create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}})
	return name
}

// apiClient creates an ApiClient as the tenant. If clientID is empty, it has the default client ID.
func (u *tenant) apiClient(name, realm, clientID string, change ...func(*v1beta1.ApiClient)) func(*testing.T) *v1beta1.ApiClient {
	return func(t *testing.T) *v1beta1.ApiClient {
		t.Helper()
		c := install.ApiClient(u.namespace, name, realm, append([]func(*v1beta1.ApiClient){func(c *v1beta1.ApiClient) { c.Spec.ClientID = clientID }}, change...)...)
		u.create(t, c)
		return c
	}
}

// create creates an object as the tenant, once RBAC has taken effect.
func (u *tenant) create(t *testing.T, obj client.Object) {
	t.Helper()
	createAs(t, u.Client, obj)
}

func createAs(t *testing.T, user client.Client, obj client.Object) {
	t.Helper()
	install.Eventually(t, "permission to create "+obj.GetName(), func() error { return user.Create(t.Context(), obj) })
}

// expectRejected waits until a client is rejected with the given reason, and checks that it has
// neither a record nor a credentials Secret.
func expectRejected(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient, reason v1beta1.ConditionReason) {
	t.Helper()
	inst.AwaitReady(t, c, metav1.ConditionFalse, reason)
	for _, secret := range scenario.Records(t, inst) {
		if body, err := record.ReadClient(&secret); err == nil && body.UID == c.UID {
			t.Errorf("ApiClient %s/%s holds client ID %q", c.Namespace, c.Name, body.ClientID)
		}
	}
	secrets := &corev1.SecretList{}
	if err := inst.Env.Client.List(t.Context(), secrets, client.InNamespace(c.Namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range secrets.Items {
		if metav1.IsControlledBy(&secrets.Items[i], c) {
			t.Errorf("ApiClient %s/%s has credentials Secret %s", c.Namespace, c.Name, secrets.Items[i].Name)
		}
	}
}

// issuer returns the issuer of a realm on the same installation as the victims.
func (b *bank) issuer(realm string) string {
	endpoint := b.victims[0].client.Status.TokenEndpoint
	return strings.Replace(strings.TrimSuffix(endpoint, "/oauth2/token"), "/"+bankName, "/"+realm, 1)
}
