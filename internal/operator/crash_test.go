package operator_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/testenv"
	"github.com/realmkeeper/realmkeeper/internal/testinstall"
)

// The operator may be killed between any two of its writes: started again, it brings
// everything to the same state as if it had not been. It is killed after each write in turn, once
// that has taken effect and before the answer arrives.
func TestKilledAfterAnyWrite(t *testing.T) {
	env := testenv.Start(t)
	var (
		want   state
		writes int
	)
	t.Run("undisturbed", func(t *testing.T) { want, writes = story(t, env, 0) })
	if writes == 0 {
		t.Fatal("the undisturbed run writes nothing")
	}
	t.Logf("The undisturbed run makes %d writes", writes)
	for number := 1; number <= writes; number++ {
		t.Run(fmt.Sprintf("killed after write %d", number), func(t *testing.T) {
			got, _ := story(t, env, number)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the state differs from that of the undisturbed run (-want +got):\n%s", diff)
			}
		})
	}
}

// story takes an installation through creation, change and deletion. The operator is
// killed after its write of that number and started again; 0 for not at all. It returns
// the final state and how many writes there were.
func story(t *testing.T, env *testenv.Env, number int) (state, int) {
	t.Helper()
	install := testinstall.New(t, env, testinstall.Settings{})
	team := env.Namespace(t)
	realm := testinstall.Realm("acme", func(r *v1alpha1.Realm) { r.Spec.Scopes = []string{"read"} })
	billing := testinstall.ApiClient(team, "billing", "acme")
	doomed := testinstall.ApiClient(team, "doomed", "acme")
	install.Create(t, realm, billing, doomed)
	proxy := install.StartFaultProxy(t, number, func() { install.KillAndRestartOperator(t) })
	install.StartOperator(t, install.KubeconfigFor(t, proxy.URL))
	install.StartTokenServer(t)
	install.AwaitReady(t, billing, metav1.ConditionTrue, v1alpha1.ReasonReady)
	install.AwaitReady(t, doomed, metav1.ConditionTrue, v1alpha1.ReasonReady)

	testinstall.Change(t, install, realm, func(r *v1alpha1.Realm) { r.Spec.Scopes = []string{"read", "write"} })
	testinstall.Change(t, install, billing, func(c *v1alpha1.ApiClient) {
		c.Spec.Scopes = []string{"write"}
		c.Spec.Secret = &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{
			Keys: map[string]v1alpha1.SecretDataKey{v1alpha1.SecretKeyScope: "SCOPE"},
		}}
	})
	install.Delete(t, doomed)
	testinstall.Eventually(t, "the records and the Secret of the deleted client to be gone", func() error {
		if records := recordsOf(t, install); len(records) != 2 {
			return errorf("there are %d records", len(records))
		}
		err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: team, Name: "doomed"}, &corev1.Secret{})
		if !apierrors.IsNotFound(err) {
			return errorf("reading its Secret gives %v", err)
		}
		return nil
	})
	install.AwaitReady(t, realm, metav1.ConditionTrue, v1alpha1.ReasonReady)
	install.AwaitReady(t, billing, metav1.ConditionTrue, v1alpha1.ReasonReady)
	consumer := install.ConsumerSecret(t, billing)
	if string(consumer.Data["SCOPE"]) != "write" || consumer.Data["scope"] != nil {
		t.Errorf("the scope in the consumer Secret is %q under the new key and %q under the old", consumer.Data["SCOPE"], consumer.Data["scope"])
	}
	install.AwaitTokens(t, consumer, true)
	return stateOf(t, install, team), proxy.Writes()
}
