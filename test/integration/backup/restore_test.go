package backup_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
)

func TestBackup(t *testing.T) {
	newCluster := env.StartAnother(t, "")
	s := startSource(t)
	identity, recipient := plugin.NewIdentity(t)
	file := testBackup(t, s, recipient)
	testPermissions(t, s, recipient)
	restoredCluster := env.StartAnother(t, s.Env.SaveSnapshot(t))
	issuer := s.issuer(t)
	s.shutDown(t)
	t.Run("new cluster", func(t *testing.T) { testNewCluster(t, s, newCluster(t), issuer, identity, file) })
	t.Run("snapshot of etcd", func(t *testing.T) { testSnapshot(t, s, restoredCluster(t), identity, file) })
}

// Clients keep their secrets, and their tokens stay valid, in a new cluster: for a realm that exists
// only in the backup, and for one that GitOps has created before.
func testNewCluster(t *testing.T, s *source, cluster *env.Env, issuer, identity, file string) {
	to := install.New(t, cluster, install.Settings{Replaces: s.Installation})
	u := plugin.NewUser(cluster)
	testRejected(t, to, identity, file)
	configure(t, to, issuer)
	testMissingNamespace(t, to, identity, file)
	to.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}})
	testInterrupted(t, to, identity, file)
	u.Succeeds(t, "restore", "--identity", identity, "--realm", "acme", file)
	u.Fails(t, "has not adopted everything: 2 objects", "restore", "--finish", "--realm", "acme")

	to.StartOperator(t, "")
	to.StartTokenServer(t)
	testHeldClientID(t, to, identity, file)
	u.Apply(t, shop)
	orders := &v1alpha1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "orders"}}
	to.AwaitReady(t, orders, metav1.ConditionTrue, v1alpha1.ReasonReady)
	to.ApplyFile(t, "docs", "backup", "restore-rbac.yaml")
	plugin.Golden(t, "restore.golden", u.Succeeds(t, "restore", "--identity", identity, "--wait", file, "--as", "restorer"))
	s.billing.accepts(t, to)
	s.orders.accepts(t, to)
	for _, manifests := range []string{acme, shop} {
		if code, out := u.Kubectl(t, manifests, "diff", "--filename", "-"); code != 0 {
			t.Errorf("kubectl diff after the restore: %s", out)
		}
	}
	to.AwaitSettled(t)
	before := keys(objects(t, cluster))
	plugin.Golden(t, "restore-again.golden", u.Succeeds(t, "restore", "--identity", identity, "--wait", file))
	if diff := cmp.Diff(before, keys(objects(t, cluster))); diff != "" {
		t.Errorf("The second restore changed which objects exist (-before +after):\n%s", diff)
	}
	testFinish(t, s, to, orders)
	testUnreadableRecord(t, s, to, identity, file)
}

func testMissingNamespace(t *testing.T, to *install.Installation, identity, file string) {
	t.Helper()
	got := plugin.NewUser(to.Env).Fails(t, "were not restored", "restore", "--identity", identity, file)
	if !strings.Contains(got.Stdout, "create Namespace "+team) {
		t.Errorf("The report does not name the missing namespace:\n%s", got.Stdout)
	}
	remove(t, to)
}

// testHeldClientID restores while another ApiClient has the client ID of one in the backup.
func testHeldClientID(t *testing.T, to *install.Installation, identity, file string) {
	t.Helper()
	u := plugin.NewUser(to.Env)
	other := install.ApiClient(to.Env.Namespace(t), "other", "shop", func(c *v1alpha1.ApiClient) { c.Spec.ClientID = "shop-orders" })
	to.Create(t, install.Realm("shop"), other)
	to.AwaitReady(t, other, metav1.ConditionTrue, v1alpha1.ReasonReady)
	got := u.Fails(t, "1 of 2 objects", "restore", "--identity", identity, "--realm", "shop", file)
	if !strings.Contains(strings.Join(strings.Fields(got.Stdout), " "), "ApiClient "+other.Namespace+"/other holds") {
		t.Errorf("The report does not name the holder of the client ID:\n%s", got.Stdout)
	}
	// The realm that is deleted below adopts the backup, and not the one that replaces it.
	adopted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: to.RecordsNamespace, Name: record.RealmRestoreName("shop")}}
	install.Eventually(t, "the adoption of the restore record", func() error {
		return install.NotFound(to.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(adopted), adopted))
	})
	for _, obj := range []client.Object{other, install.Realm("shop")} {
		to.Delete(t, obj)
		install.Eventually(t, "the deletion of "+obj.GetName(), func() error {
			return install.NotFound(to.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
		})
	}
}

// testFinish ends the secrets of the backup. The new secret of the client, its identity, and the signing
// keys stay.
func testFinish(t *testing.T, s *source, to *install.Installation, orders *v1alpha1.ApiClient) {
	t.Helper()
	u, current := plugin.NewUser(to.Env), to.CredentialsSecret(t, orders)
	u.Succeeds(t, "restore", "--finish", "--dry-run")
	to.AwaitTokens(t, s.orders.credentials, true)
	plugin.Golden(t, "finish.golden", u.Succeeds(t, "restore", "--finish", "--as", "restorer"))
	for _, of := range []used{s.billing, s.orders} {
		to.AwaitTokens(t, of.credentials, false)
		to.AwaitValid(t, of.realm, of.token, true)
	}
	to.AwaitTokens(t, current, true)
	u.Succeeds(t, "restore", "--finish") // there is nothing to do
}

// testUnreadableRecord replaces the damaged record of a restored client as the docs say. The client keeps
// its identity in tokens.
func testUnreadableRecord(t *testing.T, s *source, to *install.Installation, identity, file string) {
	t.Helper()
	realm, billing := install.Realm("acme"), install.ApiClient(team, "billing", "acme")
	if err := to.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(realm), realm); err != nil {
		t.Fatal(err)
	}
	damaged := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: to.RecordsNamespace, Name: record.ClientSecretName(realm.UID, billing.EffectiveClientID()),
	}}
	install.Change(t, to, damaged, func(s *corev1.Secret) { s.Data[record.DataKey] = []byte("{}") })
	to.AwaitReady(t, billing, metav1.ConditionFalse, v1alpha1.ReasonRecordUnreadable)
	plugin.NewUser(to.Env).Succeeds(t, "restore", "--identity", identity, "--realm", "acme", file)
	to.Delete(t, damaged)
	to.AwaitReady(t, billing, metav1.ConditionTrue, v1alpha1.ReasonReady)
	s.billing.accepts(t, to)
}

// remove deletes what a restore has written.
func remove(t *testing.T, inst *install.Installation) {
	t.Helper()
	c := inst.Env.Client
	for _, obj := range []client.Object{&v1alpha1.Realm{}, &corev1.Secret{}, &v1alpha1.ApiClient{}} {
		var options []client.DeleteAllOfOption
		switch obj.(type) {
		case *corev1.Secret:
			options = append(options, client.InNamespace(inst.RecordsNamespace), client.MatchingLabels{v1alpha1.RecordLabel: v1alpha1.RecordRestore})
		case *v1alpha1.ApiClient:
			options = append(options, client.InNamespace(team))
		}
		if err := c.DeleteAllOf(t.Context(), obj, options...); err != nil {
			t.Fatal(err)
		}
	}
}

// A cluster that is restored from a snapshot of etcd needs no other restore, and an older backup brings
// no secret back that was revoked since.
func testSnapshot(t *testing.T, s *source, cluster *env.Env, identity, file string) {
	to := install.In(t, cluster, s.Namespace, install.Settings{Replaces: s.Installation})
	u := plugin.NewUser(cluster)
	to.StartOperator(t, "")
	to.StartTokenServer(t)
	s.billing.accepts(t, to)
	s.orders.accepts(t, to)

	u.Succeeds(t, "revoke", "apiclient/billing", "-n", team, "--secret", "--wait")
	plugin.Golden(t, "unchanged.golden", u.Succeeds(t, "restore", "--identity", identity, "--wait", file))
	u.Succeeds(t, "status") // the operator has nothing to adopt
	to.AwaitTokens(t, s.billing.credentials, false)
	s.orders.accepts(t, to)
	if restores := keys(objects(t, cluster)); strings.Contains(strings.Join(restores, " "), "/restore-") {
		t.Errorf("The restore wrote restore records: %q", restores)
	}
}
