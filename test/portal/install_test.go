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
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// instance is an installation with a portal, and people who use it.
type instance struct {
	*testinstall.Installation

	portal *testinstall.Portal
	// admin holds the role everywhere, and viewer may only look.
	admin, viewer string
}

// startInstance starts operator, token server and portal, with a realm named acme.
func startInstance(t testing.TB) *instance {
	t.Helper()
	env := testenv.Start(t)
	i := &instance{Installation: testinstall.New(t, env, testinstall.Settings{})}
	i.ApplyFile(t, "config", "rbac", "manage_api_credentials_role.yaml")
	i.ApplyFile(t, "config", "rbac", "aggregated_roles.yaml")
	i.Create(t, testinstall.Realm("acme", func(r *v1alpha1.Realm) {
		r.Spec.DisplayName = "Acme Corporation"
		r.Spec.Scopes = []string{"orders.read", "orders.write"}
	}))
	i.StartOperator(t, "")
	i.StartTokenServer(t)
	i.AwaitReady(t, testinstall.Realm("acme"), metav1.ConditionTrue, v1alpha1.ReasonReady)
	i.admin = i.person(t, "initial-admin", "manage-api-credentials", "")
	i.viewer = i.person(t, "viewer", "realmkeeper-view", "")
	i.portal = i.StartPortal(t, "--initial-admin", i.Namespace+"/initial-admin")
	return i
}

// person makes a service account that holds a role in a namespace, or everywhere, and returns its token.
func (i *instance) person(t testing.TB, name, role, namespace string) string {
	t.Helper()
	token := i.ServiceAccount(t, i.Namespace, name)
	i.Bind(t, role, namespace, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: i.Namespace, Name: name})
	return token
}

// wantTokens fails the test unless the token servers give the client a token for a secret, or refuse it, within
// the patience of tests.
func (i *instance) wantTokens(t *testing.T, namespace, name, secret string, granted bool) {
	t.Helper()
	realm := testinstall.Realm("acme")
	if err := i.Env.Client.Get(t.Context(), types.NamespacedName{Name: realm.Name}, realm); err != nil {
		t.Fatal(err)
	}
	i.AwaitTokens(t, &corev1.Secret{Data: map[string][]byte{
		v1alpha1.SecretKeyTokenURL: []byte(realm.Status.TokenEndpoint), v1alpha1.SecretKeyClientID: []byte(namespace + "." + name),
		v1alpha1.SecretKeyClientSecret: []byte(secret),
	}}, granted)
}

// get reads an object anew.
func (i *instance) get(t *testing.T, obj client.Object) {
	t.Helper()
	if err := i.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
}

// hashed is the source of a secret that somebody has made elsewhere.
func hashed(t *testing.T, id string) *v1alpha1.ClientSecretSource {
	t.Helper()
	verifier, err := clientsecret.Hash("made elsewhere", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &v1alpha1.ClientSecretSource{Hashed: []v1alpha1.HashedSecret{{ID: id, Hash: verifier.String()}}}
}
