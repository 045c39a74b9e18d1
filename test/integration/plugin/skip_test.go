package plugin_test

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// Namespaces of tenants. Each client has its name from what its tenant does to it.
const (
	healthy = "skip-apps"
	full    = "skip-full" // its quota for ApiClients is used up
	gone    = "skip-gone" // it is deleted before the restore
	late    = "skip-late" // it is deleted between the check and the writes
)

// victims are clients that tenants make unusable, and the namespaces of the clients.
var victims = map[string]string{
	"deleting": healthy, "held": healthy, "other": healthy, "quota": full, "gone": gone, "late": late,
}

// Tenants can make their ApiClients unusable. A restore skips these, and says why. The realm and the other clients
// work. After the tenants have repaired their objects, another restore restores the rest.
func TestRestoreSkipsClients(t *testing.T) {
	cluster := env.Start(t)
	inst, user := install.New(t, cluster, install.Settings{}), plugin.NewUser(cluster)
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	for _, namespace := range []string{healthy, full, gone, late} {
		inst.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
	inst.Create(t, install.Realm("acme"))
	s := &source{Installation: inst, user: user}
	clients := map[string]used{}
	for name, namespace := range victims {
		clients[name] = s.newClient(t, namespace, name)
	}
	for _, name := range []string{"billing", "immutable", "lost"} {
		clients[name] = s.newClient(t, healthy, name)
	}
	identity, recipient := plugin.NewIdentity(t)
	file := filepath.Join(t.TempDir(), "a.backup")
	user.Succeeds(t, "backup", "--recipient", recipient, "--output", file)
	restore := []string{"restore", "--identity", identity, "--service-url", strings.TrimSuffix(s.issuer(t), "/acme"), file}
	s.lose(t, clients)
	s.obstruct(t, clients)

	testReportOfDryRun(t, user, restore)
	got := s.restoreWhileTenantsAct(t, restore)
	if got.Code != 3 || !strings.Contains(got.ErrorLine(), "7 ApiClients have a problem") {
		t.Errorf("The restore exits with %d and %s", got.Code, got.Stderr)
	}
	plugin.Golden(t, "skipped.golden", got.Stdout)
	inst.StartOperator(t, "")
	for _, name := range []string{"billing", "immutable", "lost"} {
		clients[name].accepts(t, inst)
	}
	for name := range victims {
		inst.AwaitTokens(t, clients[name].credentials, false)
	}

	s.repair(t)
	inst.StopOperator(t)
	user.Succeeds(t, restore...)
	inst.StartOperator(t, "")
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		clients[name].accepts(t, inst)
	}
}

// newClient creates a client with its name as client ID, and uses it.
func (s *source) newClient(t *testing.T, namespace, name string) used {
	t.Helper()
	c := install.ApiClient(namespace, name, "acme", withClientID(name))
	s.Create(t, c)
	scenario.AwaitUsable(t, s.Installation, c)
	credentials := s.CredentialsSecret(t, c)
	return used{realm: "acme", credentials: credentials, token: s.AccessToken(t, credentials)}
}

func withClientID(id string) func(*v1beta1.ApiClient) {
	return func(c *v1beta1.ApiClient) { c.Spec.ClientID = id }
}

// lose deletes everything in a backup of the realm acme. The credentials Secrets stay, with owners that no longer
// exist.
func (s *source) lose(t *testing.T, clients map[string]used) {
	t.Helper()
	s.StopOperator(t)
	for name, u := range clients {
		s.Delete(t, install.ApiClient(u.credentials.Namespace, name, "acme"))
	}
	s.Delete(t, install.Realm("acme"))
	records := []client.DeleteAllOfOption{client.InNamespace(s.RecordsNamespace), client.HasLabels{v1beta1.RecordLabel}}
	if err := s.Env.Client.DeleteAllOf(t.Context(), &corev1.Secret{}, records...); err != nil {
		t.Fatal(err)
	}
}

// obstruct does what tenants can do before a restore. The Realm exists again, with new keys, as it would after GitOps
// has created it.
func (s *source) obstruct(t *testing.T, clients map[string]used) {
	t.Helper()
	squatter := install.ApiClient(healthy, "squatter", "acme", withClientID("held"))
	s.Create(t, install.Realm("acme"), squatter)
	s.StartOperator(t, "")
	s.AwaitReady(t, squatter, metav1.ConditionTrue, v1beta1.ReasonReady)
	s.StopOperator(t)

	deleting := install.ApiClient(healthy, "deleting", "acme", withClientID("deleting"), func(c *v1beta1.ApiClient) { c.Finalizers = []string{"example.com/hold"} })
	s.Create(t, deleting, install.ApiClient(healthy, "other", "acme", withClientID("another")))
	s.Delete(t, deleting)
	install.Change(t, s.Installation, clients["immutable"].credentials.DeepCopy(), func(secret *corev1.Secret) { secret.Immutable = new(true) })
	s.Delete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gone}})
	s.fillQuota(t)
}

// fillQuota creates a ResourceQuota that allows no ApiClient, and waits until the API server has it in its cache.
func (s *source) fillQuota(t *testing.T) {
	t.Helper()
	none := corev1.ResourceList{"count/apiclients.auth.realmkeeper.dev": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: full, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
	s.Create(t, quota)
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none} // kube-controller-manager would set it
	if err := s.Env.Client.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	install.Eventually(t, "an ApiClient over the quota to be forbidden", func() error {
		if err := s.createInFull(t); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("it is not forbidden"), err)
		}
		return nil
	})
}

// createInFull tries to create an ApiClient in the namespace with the quota.
func (s *source) createInFull(t *testing.T) error {
	t.Helper()
	return s.Env.Client.Create(t.Context(), install.ApiClient(full, "probe", "acme"), client.DryRunAll)
}

// testReportOfDryRun checks that a dry run finds what can be known before, in the form for programs.
func testReportOfDryRun(t *testing.T, user *plugin.User, restore []string) {
	t.Helper()
	got := user.Run(t.Context(), append(restore, "--dry-run", "-o", "json")...)
	var report struct {
		Objects []struct{ Name, Result, Data, Problem string }
	}
	if err := json.Unmarshal([]byte(got.Stdout), &report); err != nil {
		t.Fatalf("%s%v", got.Stderr, err)
	}
	skipped := map[string]string{}
	for _, o := range report.Objects {
		if o.Result == "skipped" && o.Problem != "" {
			skipped[o.Name] = o.Data
		}
	}
	want := map[string]string{}
	for _, name := range []string{"deleting", "held", "other", "quota", "gone"} {
		want[name] = "NotRestored"
	}
	if diff := cmp.Diff(want, skipped); diff != "" || got.Code != 3 {
		t.Errorf("Exit code %d and skipped ApiClients (-want +got):\n%s", got.Code, diff)
	}
}

// restoreWhileTenantsAct restores while one tenant deletes its namespace, and another one its credentials Secret,
// just before the restore writes there.
func (s *source) restoreWhileTenantsAct(t *testing.T, restore []string) plugin.Outcome {
	t.Helper()
	proxy := s.StartFaultProxy(t, install.Faults{Of: func(w install.Write) install.Fault {
		var obj client.Object
		switch {
		case strings.HasSuffix(w.Path, "/namespaces/"+late+"/apiclients"):
			obj = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: late}}
		case strings.HasSuffix(w.Path, "/namespaces/"+healthy+"/secrets/lost"):
			obj = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: healthy, Name: "lost"}}
		default:
			return install.NoFault
		}
		if err := s.Env.Client.Delete(t.Context(), obj); err != nil {
			t.Errorf("Failed to delete %s: %v", obj.GetName(), err)
		}
		return install.NoFault
	}})
	user := plugin.NewUser(s.Env)
	user.Kubeconfig = s.KubeconfigFor(t, proxy.URL)
	return user.Run(t.Context(), restore...)
}

// repair does what the problems in the report ask for.
func (s *source) repair(t *testing.T) {
	t.Helper()
	squatter := install.ApiClient(healthy, "squatter", "acme", withClientID("held"))
	held := client.ObjectKey{Namespace: s.RecordsNamespace, Name: scenario.RecordName(t, s.Installation, squatter)}
	s.Delete(t, squatter)
	install.Eventually(t, "the client ID to be free", func() error {
		err := s.Env.Client.Get(t.Context(), held, &corev1.Secret{})
		if !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the record exists"), err)
		}
		return nil
	})
	s.Delete(t, install.ApiClient(healthy, "other", "acme"))
	install.Change(t, s.Installation, install.ApiClient(healthy, "deleting", "acme"), func(c *v1beta1.ApiClient) { c.Finalizers = nil })
	s.Delete(t, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: full, Name: "none"}})
	install.Eventually(t, "the quota to be deleted", func() error { return s.createInFull(t) })
	for _, name := range []string{gone, late} {
		namespace := &corev1.Namespace{}
		if err := s.Env.Client.Get(t.Context(), client.ObjectKey{Name: name}, namespace); err != nil {
			t.Fatal(err)
		}
		namespace.Spec.Finalizers = nil // kube-controller-manager would remove them
		if err := s.Env.Client.SubResource("finalize").Update(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		s.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
}
