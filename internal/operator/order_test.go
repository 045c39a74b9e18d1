package operator_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// Any order of applying converges: GitOps tools promise none.
func TestAnyOrderConverges(t *testing.T) {
	env := testenv.Start(t)
	realm := func() *v1alpha1.Realm { return testinstall.Realm("acme") }
	billing := func(t *testing.T) *v1alpha1.ApiClient {
		return testinstall.ApiClient(env.Namespace(t), "billing", "acme")
	}

	t.Run("realm, then client", func(t *testing.T) {
		install := running(t, env)
		c := billing(t)
		install.Create(t, realm(), c)
		converges(t, install, c)
	})
	t.Run("client, told that its realm is missing, then realm", func(t *testing.T) {
		install := running(t, env)
		c := billing(t)
		install.Create(t, c)
		install.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound)
		install.Create(t, realm())
		converges(t, install, c)
	})
	t.Run("objects, then operator, then token server", func(t *testing.T) {
		install := testinstall.New(t, env, testinstall.Settings{})
		c := billing(t)
		install.Create(t, c, realm())
		install.StartOperator(t, "")
		install.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonNoTokenServer)
		install.StartTokenServer(t)
		converges(t, install, c)
	})
}

func running(t *testing.T, env *testenv.Env) *testinstall.Installation {
	t.Helper()
	install := testinstall.New(t, env, testinstall.Settings{})
	install.StartOperator(t, "")
	install.StartTokenServer(t)
	install.StartTokenServer(t)
	return install
}

// inUse returns an installation with two token servers, and in it a realm with a client
// that is Ready.
func inUse(t *testing.T, env *testenv.Env) (*testinstall.Installation, *v1alpha1.Realm, *v1alpha1.ApiClient) {
	t.Helper()
	install := running(t, env)
	realm, c := testinstall.Realm("acme"), testinstall.ApiClient(env.Namespace(t), "billing", "acme")
	install.Create(t, realm, c)
	converges(t, install, c)
	return install, realm, c
}

// converges checks that the client is Ready, and that Ready means usable: at that very
// moment every token server gives it a token.
func converges(t *testing.T, install *testinstall.Installation, c *v1alpha1.ApiClient) {
	t.Helper()
	install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	consumer := install.ConsumerSecret(t, c)
	for _, s := range install.Servers() {
		a, err := testinstall.RequestToken(t, s, s.Client(t), consumer)
		if err != nil || a.AccessToken == "" {
			t.Errorf("%s gives no token to a client that is Ready: %+v, %v", s.Name, a, err)
		}
	}
	realm := &v1alpha1.Realm{}
	if err := install.Env.Client.Get(t.Context(), client.ObjectKey{Name: c.Spec.RealmRef.Name}, realm); err != nil {
		t.Fatal(err)
	}
	install.AwaitReady(t, realm, metav1.ConditionTrue, v1alpha1.ReasonReady)
}
