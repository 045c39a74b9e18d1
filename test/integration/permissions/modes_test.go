package permissions_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// polls makes the operator read namespaces ten times a second.
const polls = 600

// running starts an operator and a token server with the settings.
func running(t *testing.T, settings install.Settings) *install.Installation {
	t.Helper()
	inst := install.New(t, env.Start(t), settings)
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	return inst
}

// restart restarts the operator with other settings and the permissions for them.
func restart(t *testing.T, inst *install.Installation, settings install.Settings) {
	t.Helper()
	inst.StopOperator(t)
	inst.Reconfigure(t, settings)
	inst.StartOperator(t, "")
}

func TestWatchNamespaces(t *testing.T) {
	cluster := env.Start(t)
	watched, other := cluster.Namespace(t), cluster.Namespace(t)
	settings := install.Settings{WatchNamespaces: []string{watched}, SpeedUp: polls}
	inst := running(t, settings)
	selecting := v1beta1.Grant{
		Name: "selected", ClientIDs: []string{"*"}, Audiences: v1beta1.GrantedAudiences{"*"}, Issuers: []string{"*"},
		Namespaces: v1beta1.GrantedNamespaces{Selector: &v1beta1.NamespaceSelector{MatchLabels: map[string]v1beta1.LabelValue{"team": "shop"}}},
	}
	realm := install.Realm("acme", func(r *v1beta1.Realm) { r.Spec.Grants = []v1beta1.Grant{selecting} })
	account := &corev1.ServiceAccount{ObjectMeta: key(watched, "workload")}
	served := install.ApiClient(watched, "billing", realm.Name, func(c *v1beta1.ApiClient) {
		c.Spec.Secret, c.Spec.Identities = install.GeneratedSecret(), install.ServiceAccounts(account.Name)
	})
	unserved := install.ApiClient(other, "billing", realm.Name)
	inst.Create(t, realm, account, served, unserved)

	t.Run("labels are polled", func(t *testing.T) {
		inst.AwaitReady(t, served, metav1.ConditionFalse, v1beta1.ReasonNamespaceNotAllowed)
		label(t, inst, watched, "shop")
		inst.AwaitReady(t, served, metav1.ConditionTrue, v1beta1.ReasonReady)
	})
	credentials := inst.CredentialsSecret(t, served)
	inst.AwaitTokens(t, credentials, true)
	t.Run("other namespaces are ignored", func(t *testing.T) {
		label(t, inst, other, "shop")
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(unserved), unserved); err != nil || len(unserved.Status.Conditions) > 0 {
			t.Errorf("The ApiClient in another namespace has conditions: %v, %v", unserved.Status.Conditions, err)
		}
		inst.Create(t, secret(other, "credentials", generated))
		operator := as(t, inst, operatorAccount, "")
		deny(t, operator, map[string]attempt{
			"read a Secret elsewhere":   {get(secret(other, "credentials", nil)), noPermission},
			"delete a Secret elsewhere": {remove(secret(other, "credentials", nil)), noPermission},
			"create a Secret elsewhere": {create(secret(other, "new", generated)), noPermission},
			"list all Secrets":          {func(ctx context.Context, c client.Client) error { return c.List(ctx, &corev1.SecretList{}) }, noPermission},
			"list all ApiClients":       {func(ctx context.Context, c client.Client) error { return c.List(ctx, &v1beta1.ApiClientList{}) }, noPermission},
			"read another namespace":    {get(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}}), noPermission},
		})
	})
	t.Run("clients of a namespace that is no longer watched get no tokens", func(t *testing.T) {
		restart(t, inst, install.Settings{WatchNamespaces: []string{other}, SpeedUp: polls})
		inst.AwaitReady(t, unserved, metav1.ConditionTrue, v1beta1.ReasonReady)
		inst.AwaitTokens(t, credentials, false)
		inst.AwaitTokens(t, inst.CredentialsSecret(t, unserved), true)
		if kept := recordsOf(t, inst, served); kept != 2 {
			t.Errorf("the client has %d records, want those of its ID and its subject", kept)
		}
		restart(t, inst, install.Settings{WatchNamespaces: []string{other, watched}, SpeedUp: polls})
		inst.AwaitTokens(t, credentials, true)
	})
	t.Run("clients of a deleted namespace get no tokens", func(t *testing.T) {
		inst.Delete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: watched}})
		inst.AwaitTokens(t, credentials, false)
		install.Eventually(t, "the records of the client to be deleted", func() error {
			if left := recordsOf(t, inst, served); left > 0 {
				return fmt.Errorf("%d records still exist", left)
			}
			return nil
		})
	})
	t.Run("a deleted namespace does not affect the others", func(t *testing.T) {
		install.Eventually(t, "the namespace to be deleted", func() error {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: watched}}
			return install.NotFound(inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace))
		})
		inst.StopOperator(t)
		inst.StartOperator(t, "")
		install.Change(t, inst, unserved, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
		inst.AwaitReady(t, unserved, metav1.ConditionFalse, v1beta1.ReasonSuspended)
	})
}

// recordsOf returns the number of a client's records: one for its ID and one for each subject.
func recordsOf(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient) (n int) {
	t.Helper()
	for _, r := range scenario.Records(t, inst) {
		if r.Annotations[v1beta1.OwnerAnnotation] == c.Namespace+"/"+c.Name {
			n++
		}
	}
	return n
}

func label(t *testing.T, inst *install.Installation, namespace, team string) {
	t.Helper()
	install.Change(t, inst, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func(n *corev1.Namespace) { n.Labels["team"] = team })
}

func TestWithoutCredentialsSecrets(t *testing.T) {
	tenant := env.Start(t).Namespace(t)
	inst := running(t, install.Settings{NoCredentialsSecrets: true, WatchNamespaces: []string{tenant}})
	realm := install.Realm("acme")
	fromSecret := func(c *v1beta1.ApiClient) {
		c.Spec.Secret = &v1beta1.ClientSecretSource{Provided: &v1beta1.ProvidedSecret{SecretRef: v1beta1.SecretKeyReference{Name: "provided"}}}
	}
	generates, provides := install.ApiClient(tenant, "generates", realm.Name), install.ApiClient(tenant, "provides", realm.Name, fromSecret)
	account := &corev1.ServiceAccount{ObjectMeta: key(tenant, "workload")}
	identified := install.ApiClient(tenant, "identified", realm.Name, func(c *v1beta1.ApiClient) {
		c.Spec.Identities = install.ServiceAccounts(account.Name)
	})
	existing := secret(tenant, "provided", provided)
	inst.Create(t, realm, existing, account, generates, provides, identified)

	inst.AwaitReady(t, identified, metav1.ConditionTrue, v1beta1.ReasonReady)
	for _, c := range []*v1beta1.ApiClient{generates, provides} {
		inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonCredentialsSecretsDisabled)
	}
	// Follow the remedy in the message.
	install.Change(t, inst, generates, func(c *v1beta1.ApiClient) {
		c.Spec.Secret = nil
		c.Spec.Identities = identified.Spec.Identities
	})
	inst.AwaitReady(t, generates, metav1.ConditionTrue, v1beta1.ReasonReady)

	operator := as(t, inst, operatorAccount, "")
	deny(t, operator, map[string]attempt{
		"read a provided Secret":      {get(secret(tenant, "provided", nil)), noPermission},
		"create a credentials Secret": {create(secret(tenant, "new", generated)), noPermission},
		"list Secrets": {func(ctx context.Context, c client.Client) error {
			return c.List(ctx, &corev1.SecretList{}, client.InNamespace(tenant))
		}, noPermission},
	})
	if log := inst.OperatorLog(t); bytes.Contains(log, []byte("forbidden")) {
		t.Errorf("The operator tries what it may not do:\n%s", log)
	}
}
