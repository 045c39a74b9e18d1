package plugin_test

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
	"github.com/realmkeeper/realmkeeper/test/framework/statuslist"
)

func TestBackup(t *testing.T) {
	newCluster := env.StartAnother(t, "")
	s := startSource(t)
	identity, recipient := plugin.NewIdentity(t)
	file := testBackup(t, s, recipient)
	testBackupPermissions(t, s, recipient)
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
	to.LeaderElection = true
	u := plugin.NewUser(cluster)
	testRejected(t, to, identity, file)
	configure(t, to, issuer)
	testMissingNamespace(t, to, identity, file)
	to.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shopTeam}})
	stale := s.billing.restoreCredentials(t, to)
	testInterrupted(t, to, identity, file)
	testKilled(t, to, identity, file)
	u.Succeeds(t, "restore", "--identity", identity, "--realm", "acme", file)

	to.StartOperator(t, "")
	to.StartTokenServer(t)
	s.billing.accepts(t, to)
	s.billing.endsStatusList(t, to)
	s.billing.keepsCredentials(t, to, stale)
	u.Apply(t, shop)
	orders := &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: shopTeam, Name: "orders"}}
	to.AwaitReady(t, orders, metav1.ConditionTrue, v1beta1.ReasonReady)
	testGitOpsFirst(t, s, to, orders, identity, file)
	for _, manifests := range []string{acme, shop} {
		if code, out := u.Kubectl(t, manifests, "diff", "--filename", "-"); code != 0 {
			t.Errorf("kubectl diff after the restore: %s", out)
		}
	}
	to.StopOperator(t)
	u.Succeeds(t, "restore", "--identity", identity, file) // of what is missing
	before := objects(t, cluster)
	plugin.Golden(t, "restore-again.golden", u.Succeeds(t, "restore", "--identity", identity, file))
	if diff := cmp.Diff(before, objects(t, cluster)); diff != "" {
		t.Errorf("The second restore changed objects (-before +after):\n%s", diff)
	}
	to.StartOperator(t, "")
	testFinish(t, s, to, orders)
	testRecreatedClient(t, s, to)
}

func testMissingNamespace(t *testing.T, to *install.Installation, identity, file string) {
	t.Helper()
	got := plugin.NewUser(to.Env).Run(t.Context(), "restore", "--identity", identity, "--dry-run", file)
	if got.Code != 3 || !strings.Contains(got.Stdout, "create Namespace "+shopTeam) {
		t.Errorf("Without the namespace, the restore exits with %d and %s%s", got.Code, got.Stdout, got.Stderr)
	}
}

// testKilled kills a restore. Its Lease keeps operators and other restores away until it is aborted.
func testKilled(t *testing.T, to *install.Installation, identity, file string) {
	t.Helper()
	u := plugin.NewUser(to.Env)
	restore := []string{"restore", "--identity", identity, "--realm", "shop", file}
	var killed *exec.Cmd
	proxy := to.StartFaultProxy(t, install.Faults{
		Of: func(w install.Write) install.Fault {
			if w.Number == 2 { // after the Realm, with its record
				return install.ResponseLost
			}
			return install.NoFault
		},
		Then: func(install.Write) { _ = killed.Process.Kill() },
	})
	killed = exec.CommandContext(t.Context(), install.Binary(t, to.Env, "kubectl-realmkeeper"), append(restore, "--kubeconfig", to.KubeconfigFor(t, proxy.URL))...)
	if out, err := killed.CombinedOutput(); err == nil {
		t.Fatalf("The restore was not killed: %s", out)
	}
	defer remove(t, to)

	u.Fails(t, "another restore is running: the leader Lease", restore...)
	u.Fails(t, "stop that process", "restore", "--abort")
	if out := u.Succeeds(t, "status"); !strings.Contains(out, "A restore is running") || !strings.Contains(out, "restore/") {
		t.Errorf("The status does not name the restore:\n%s", out)
	}
	to.LeaderElection = false
	to.StartOperator(t, "")
	if got := to.OperatorRefusal(t); !strings.Contains(got, "restore/") || !strings.Contains(got, "restore --abort") {
		t.Errorf("An operator without leader election exits with %q", got)
	}
	to.LeaderElection = true

	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: to.Namespace, Name: leader.LeaseName}}
	install.Change(t, to, lease, func(l *coordinationv1.Lease) {
		l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-2 * time.Minute)}
	})
	if out := words(u.Succeeds(t, "status")); !strings.Contains(out, "A restore has stopped halfway") || !strings.Contains(out, "kubectl realmkeeper restore --abort") {
		t.Errorf("The status does not say how to end the restore:\n%s", out)
	}
	if out := words(u.Succeeds(t, "restore", "--abort")); !strings.Contains(out, "had written 1 record.") || !strings.Contains(out, "run it again") {
		t.Errorf("--abort prints:\n%s", out)
	}
	if out := u.Succeeds(t, "restore", "--abort"); !strings.Contains(out, "No restore holds the leader Lease") {
		t.Errorf("The second --abort prints:\n%s", out)
	}
	u.Succeeds(t, restore...)
}

func words(s string) string { return strings.Join(strings.Fields(s), " ") }

// endsStatusList checks that the list to which the token refers has only INVALID entries, and that new tokens are
// VALID in a later list.
func (u used) endsStatusList(t *testing.T, inst *install.Installation) {
	t.Helper()
	before := statuslist.Of(t, u.token)
	statuslist.AwaitEnded(t, inst, u.credentials, before.URI)
	install.Eventually(t, "tokens that refer to a later list", func() error {
		after := statuslist.Of(t, inst.AccessToken(t, u.credentials))
		if len(after.URI) != len(before.URI) || after.URI <= before.URI {
			return fmt.Errorf("they refer to %q, and earlier ones to %q", after.URI, before.URI)
		}
		statuslist.Await(t, inst, u.credentials, after, statuslist.Valid)
		return nil
	})
	statuslist.AwaitEnded(t, inst, u.credentials, before.URI)
}

// restoreCredentials creates the credentials Secret as Velero does: with the UID of the owner that no
// longer exists.
func (u used) restoreCredentials(t *testing.T, to *install.Installation) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: u.credentials.Namespace, Name: u.credentials.Name, Labels: u.credentials.Labels, OwnerReferences: u.credentials.OwnerReferences},
		Data:       u.credentials.Data, Type: u.credentials.Type,
	}
	to.Create(t, secret)
	return secret
}

// keepsCredentials checks that a client owns the credentials Secret that was restored, with the same secret.
func (u used) keepsCredentials(t *testing.T, to *install.Installation, restored *corev1.Secret) {
	t.Helper()
	c := &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: restored.Namespace, Name: restored.Name}}
	to.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	current := to.CredentialsSecret(t, c)
	if current.UID != restored.UID || !metav1.IsControlledBy(current, c) || scenario.ClientSecret(current) != scenario.ClientSecret(u.credentials) {
		t.Errorf("The credentials Secret has UID %s and the owners %+v, or another secret", current.UID, current.OwnerReferences)
	}
}

// testGitOpsFirst restores a realm that GitOps has created before, with keys, secrets, and identities of its
// own. The operator runs and gives way to the restore.
func testGitOpsFirst(t *testing.T, s *source, to *install.Installation, orders *v1beta1.ApiClient, identity, file string) {
	t.Helper()
	u, current := plugin.NewUser(to.Env), to.CredentialsSecret(t, orders)
	between := to.AccessToken(t, current)
	to.ApplyFile(t, "docs", "backup", "restore-rbac.yaml")
	plugin.Golden(t, "restore.golden", u.Succeeds(t, "restore", "--identity", identity, "--realm", "shop", file, "--as", "restorer"))
	install.Eventually(t, "the operator to start over", func() error {
		if !bytes.Contains(to.OperatorLog(t), []byte("leader election lost")) {
			return errors.New("it has not lost the Lease")
		}
		return nil
	})
	for _, of := range []used{s.billing, s.orders} {
		of.accepts(t, to)
	}
	to.AwaitTokens(t, current, true)
	to.AwaitValid(t, "shop", between, true)
}

// testFinish ends the secrets of the backup. The new secret of the client, its identity, and the signing
// keys stay.
func testFinish(t *testing.T, s *source, to *install.Installation, orders *v1beta1.ApiClient) {
	t.Helper()
	u, current := plugin.NewUser(to.Env), to.CredentialsSecret(t, orders)
	u.Succeeds(t, "restore", "--finish", "--dry-run")
	to.AwaitTokens(t, s.orders.credentials, true)
	plugin.Golden(t, "finish.golden", secretID.ReplaceAllString(u.Succeeds(t, "restore", "--finish", "--as", "restorer"), "ID"))
	to.AwaitTokens(t, s.orders.credentials, false)
	to.AwaitValid(t, "shop", s.orders.token, true)
	to.AwaitTokens(t, current, true)
	s.billing.accepts(t, to) // the secret is in the credentials Secret
	if out := u.Succeeds(t, "restore", "--finish"); !strings.Contains(out, "No client accepts secrets of a backup") {
		t.Errorf("The second --finish prints:\n%s", out)
	}
}

// secretID is the ID of a generated secret.
var secretID = regexp.MustCompile(`\b[0-9a-f]{12}\b`)

// A client that is deleted after the restore and created again, perhaps by another user, gets nothing of the
// backup.
func testRecreatedClient(t *testing.T, s *source, to *install.Installation) {
	t.Helper()
	billing := install.ApiClient(shopTeam, "billing", "acme")
	to.Delete(t, billing)
	to.AwaitTokens(t, s.billing.credentials, false)
	if err := to.Env.Client.Delete(t.Context(), s.billing.credentials.DeepCopy()); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	plugin.NewUser(to.Env).Apply(t, acme)
	to.AwaitReady(t, billing, metav1.ConditionTrue, v1beta1.ReasonReady)
	to.AwaitTokens(t, to.CredentialsSecret(t, billing), true)
	to.AwaitTokens(t, s.billing.credentials, false)
	to.AwaitValid(t, "acme", s.billing.token, false)
}

// remove deletes what a restore has written.
func remove(t *testing.T, inst *install.Installation) {
	t.Helper()
	c := inst.Env.Client
	for _, obj := range []client.Object{&v1beta1.Realm{}, &corev1.Secret{}, &v1beta1.ApiClient{}} {
		var options []client.DeleteAllOfOption
		switch obj.(type) {
		case *corev1.Secret:
			options = append(options, client.InNamespace(inst.RecordsNamespace), client.HasLabels{v1beta1.RecordLabel})
		case *v1beta1.ApiClient:
			options = append(options, client.InNamespace(shopTeam))
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
	to.LeaderElection = true
	u := plugin.NewUser(cluster)
	to.StartOperator(t, "")
	to.StartTokenServer(t)
	s.billing.accepts(t, to)
	s.orders.accepts(t, to)

	u.Succeeds(t, "revoke", "apiclient/billing", "-n", shopTeam, "--secret", "--wait")
	to.StopOperator(t)
	plugin.Golden(t, "unchanged.golden", u.Succeeds(t, "restore", "--identity", identity, file))
	plugin.Golden(t, "unchanged.golden", u.Succeeds(t, "restore", "--identity", identity, "--replace", file))
	to.StartOperator(t, "")
	to.AwaitTokens(t, s.billing.credentials, false)
	s.orders.accepts(t, to)
}
