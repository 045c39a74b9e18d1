package availability_test

import (
	"bytes"
	"errors"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// An operator whose CRDs are older, so that they lack a field of the status, can't write this status. New
// clients get tokens nevertheless, and the status is written as soon as the CRDs are upgraded.
func TestOperatorBeforeCRDs(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "apiclients.auth.realmkeeper.dev"}}
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
		t.Fatal(err)
	}
	complete := crd.Spec.DeepCopy()
	upgrade := func() {
		install.Change(t, inst, crd, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec = *complete })
	}
	install.Change(t, inst, crd, func(crd *apiextensionsv1.CustomResourceDefinition) {
		delete(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties, "clientID")
	})

	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	c := install.ApiClient(cluster.Namespace(t), "billing", "acme")
	inst.Create(t, install.Realm("acme"), c)
	inst.AwaitTokens(t, inst.CredentialsSecret(t, c), true)
	install.Eventually(t, "the operator to fail to write the status", func() error {
		if !bytes.Contains(inst.OperatorLog(t), []byte(".status.clientID: field not declared in schema")) {
			return errors.New("its log does not say so")
		}
		return nil
	})
	upgrade()
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	scenario.AwaitUsable(t, inst, c)
}
