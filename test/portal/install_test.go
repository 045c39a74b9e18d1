package portal_test

import (
	"crypto/rand"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// instance is an installation with a portal and its users.
type instance struct {
	*install.Installation

	portal *install.Portal
	// admin and viewer are tokens. admin has the role in all namespaces and viewer has read-only
	// access.
	admin, viewer string
}

// startInstance starts the operator, a token server and the portal, and creates the realm acme.
func startInstance(t testing.TB) *instance {
	t.Helper()
	cluster := env.Start(t)
	i := &instance{Installation: install.New(t, cluster, install.Settings{})}
	i.ApplyFile(t, "config", "rbac", "manage_api_credentials_role.yaml")
	i.ApplyFile(t, "config", "rbac", "aggregated_roles.yaml")
	i.Create(t, install.Realm("acme", func(r *v1alpha1.Realm) {
		r.Spec.DisplayName = "Acme Corporation"
		r.Spec.Scopes = []string{"orders.read", "orders.write"}
	}))
	i.StartOperator(t, "")
	i.StartTokenServer(t)
	i.AwaitReady(t, install.Realm("acme"), metav1.ConditionTrue, v1alpha1.ReasonReady)
	i.admin = i.user(t, "initial-admin", "manage-api-credentials", "")
	i.viewer = i.user(t, "viewer", "realmkeeper-view", "")
	i.portal = i.StartPortal(t, "--initial-admin", i.Namespace+"/initial-admin")
	return i
}

// user creates a service account with a role in a namespace, or in all namespaces if it is empty,
// and returns its token.
func (i *instance) user(t testing.TB, name, role, namespace string) string {
	t.Helper()
	token := i.ServiceAccount(t, i.Namespace, name)
	i.Bind(t, role, namespace, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: i.Namespace, Name: name})
	return token
}

// wantTokens waits until the token servers grant the client a token for a secret, or reject it.
func (i *instance) wantTokens(t *testing.T, namespace, name, secret string, granted bool) {
	t.Helper()
	realm := install.Realm("acme")
	if err := i.Env.Client.Get(t.Context(), types.NamespacedName{Name: realm.Name}, realm); err != nil {
		t.Fatal(err)
	}
	i.AwaitTokens(t, &corev1.Secret{Data: map[string][]byte{
		v1alpha1.SecretKeyTokenURL: []byte(realm.Status.TokenEndpoint), v1alpha1.SecretKeyClientID: []byte(namespace + "." + name),
		v1alpha1.SecretKeyClientSecret: []byte(secret),
	}}, granted)
}

// get reads the current state of an object.
func (i *instance) get(t *testing.T, obj client.Object) {
	t.Helper()
	if err := i.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
}

// hashed returns a secret source with the hash of a secret that was generated outside the portal.
func hashed(t *testing.T, id string) *v1alpha1.ClientSecretSource {
	t.Helper()
	verifier, err := clientsecret.Hash("generated elsewhere", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &v1alpha1.ClientSecretSource{Hashed: []v1alpha1.HashedSecret{{ID: id, Hash: verifier.String()}}}
}
