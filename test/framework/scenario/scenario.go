// Package scenario sets up typical installations and contains checks that several suites share.
package scenario

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// Running returns an installation with an operator and two token servers.
func Running(t *testing.T, cluster *env.Env) *install.Installation {
	t.Helper()
	inst := install.New(t, cluster, install.Settings{})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	return inst
}

// InUse returns an installation with two token servers, a realm, and a client that is Ready.
func InUse(t *testing.T, cluster *env.Env) (*install.Installation, *v1beta1.Realm, *v1beta1.ApiClient) {
	t.Helper()
	inst := Running(t, cluster)
	realm, c := NewClient(t, inst, "acme")
	return inst, realm, c
}

// NewClient creates a realm and a client in a new namespace, and waits until the client is usable.
func NewClient(t *testing.T, inst *install.Installation, realmName string) (*v1beta1.Realm, *v1beta1.ApiClient) {
	t.Helper()
	realm, c := install.Realm(realmName), install.ApiClient(inst.Env.Namespace(t), "billing", realmName)
	inst.Create(t, realm, c)
	AwaitUsable(t, inst, c)
	return realm, c
}

// AwaitUsable waits until the client is Ready and then checks that every token server immediately
// issues tokens to it.
func AwaitUsable(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient) {
	t.Helper()
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	credentials := inst.CredentialsSecret(t, c)
	for _, s := range inst.Servers() {
		a, err := install.RequestToken(t, s, s.Client(t), credentials)
		if err != nil || a.AccessToken == "" {
			t.Errorf("%s did not issue a token to a client that is Ready: %+v, %v", s.Name, a, err)
		}
	}
	realm := &v1beta1.Realm{}
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Name: c.Spec.RealmRef.Name}, realm); err != nil {
		t.Fatal(err)
	}
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
}
