package availability_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// An operator that finds records in its system namespace doesn't start, because it would give all
// realms new keys. The commands in its message work.
func TestOperatorRefusesRecordsInSystemNamespace(t *testing.T) {
	cluster := env.Start(t)
	inst, realm, c := scenario.InUse(t, cluster)
	credentials := inst.CredentialsSecret(t, c)
	token := inst.AccessToken(t, credentials)
	inst.StopOperator(t)
	inst.StopTokenServers(t)

	moveRecords(t, inst, inst.RecordsNamespace, inst.Namespace)
	before := recordData(t, inst, inst.Namespace)
	inst.StartOperator(t, "")
	refusal := inst.OperatorRefusal(t)
	commands := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(refusal, -1)
	if len(commands) != 2 || !strings.Contains(refusal, "records must be in the records namespace "+inst.RecordsNamespace) {
		t.Fatalf("the operator's last line is %q, want the records namespace and two commands", refusal)
	}

	shell(t, cluster, commands[0][1])
	if left := recordData(t, inst, inst.Namespace); len(left) > 0 {
		t.Errorf("%d records are still in the system namespace", len(left))
	}
	if got := recordData(t, inst, inst.RecordsNamespace); !maps.Equal(got, before) {
		t.Errorf("the records changed: %d instead of %d", len(got), len(before))
	}
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.AwaitTokens(t, credentials, true)
	inst.AwaitValid(t, realm.Name, token, true)

	inst.StopOperator(t)
	moveRecords(t, inst, inst.RecordsNamespace, inst.Namespace)
	inst.StartOperator(t, "")
	inst.OperatorRefusal(t)
	shell(t, cluster, commands[1][1])
	if left := recordData(t, inst, inst.Namespace); len(left) > 0 {
		t.Errorf("%d records are still in the system namespace", len(left))
	}
	inst.StartOperator(t, "")
	// The Realm has no keys until a rotation is requested. The client keeps the secret that workloads have.
	inst.AwaitReady(t, realm, metav1.ConditionFalse, v1beta1.ReasonKeysMissing)
	inst.AwaitValid(t, realm.Name, token, false)
}

// moveRecords moves all records to another namespace.
func moveRecords(t *testing.T, inst *install.Installation, from, to string) {
	t.Helper()
	records := &corev1.SecretList{}
	if err := inst.Env.Client.List(t.Context(), records, client.InNamespace(from), client.HasLabels{v1beta1.RecordLabel}); err != nil {
		t.Fatal(err)
	}
	if len(records.Items) == 0 {
		t.Fatalf("no records in namespace %s", from)
	}
	for i := range records.Items {
		moved := records.Items[i].DeepCopy()
		moved.Namespace, moved.ResourceVersion, moved.UID = to, "", ""
		inst.Create(t, moved)
		inst.Delete(t, &records.Items[i])
	}
}

// recordData returns the content of all records in a namespace by name.
func recordData(t *testing.T, inst *install.Installation, namespace string) map[string]string {
	t.Helper()
	records := &corev1.SecretList{}
	if err := inst.Env.Client.List(t.Context(), records, client.InNamespace(namespace), client.HasLabels{v1beta1.RecordLabel}); err != nil {
		t.Fatal(err)
	}
	data := map[string]string{}
	for i := range records.Items {
		data[records.Items[i].Name] = string(records.Items[i].Data["record.json"])
	}
	return data
}

// shell runs a command that contains kubectl, as an administrator.
func shell(t *testing.T, cluster *env.Env, command string) {
	t.Helper()
	run := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", command)
	run.Env = append(run.Environ(), "KUBECONFIG="+cluster.Kubeconfig, "PATH="+cluster.BinDir+":"+"/usr/bin:/bin")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// A second instance in the cluster can't replace the binding that reserves the cluster for the
// first, and its operator doesn't start. The first instance isn't affected.
func TestSecondInstanceDoesNotStart(t *testing.T) {
	cluster := env.Start(t)
	first, realm, c := scenario.InUse(t, cluster)
	credentials := first.CredentialsSecret(t, c)

	second := install.In(t, cluster, cluster.Namespace(t), install.Settings{})
	second.ApplyFile(t, "config", "manager", "records_namespace.yaml")
	for _, file := range []string{"service_account.yaml", "role.yaml", "role_binding.yaml", "leader_election_role.yaml", "leader_election_role_binding.yaml", "token_server.yaml"} {
		second.ApplyFile(t, "config", "rbac", file)
	}
	shipped, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "rbac", "instance.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	instance := strings.ReplaceAll(string(shipped), "realmkeeper-system", second.Namespace)
	for name, args := range map[string][]string{
		"client-side apply": {"apply"}, "server-side apply": {"apply", "--server-side", "--force-conflicts"}, "replace": {"replace"},
	} {
		code, out := plugin.NewUser(cluster).Kubectl(t, instance, append(args, "--filename", "-")...)
		if code == 0 || !strings.Contains(out, "roleRef") {
			t.Errorf("%s of the second instance's binding: exit code %d\n%s", name, code, out)
		}
	}

	second.StartOperator(t, "")
	refusal := second.OperatorRefusal(t)
	for _, want := range []string{
		"ClusterRoleBinding realmkeeper-instance", `"` + first.Namespace + ":" + first.RecordsNamespace + `"`,
		`"` + second.Namespace + ":" + second.RecordsNamespace + `"`, "Uninstall this one",
	} {
		if !strings.Contains(refusal, want) {
			t.Errorf("the second operator's last line does not contain %q: %s", want, refusal)
		}
	}
	if written := recordData(t, second, second.RecordsNamespace); len(written) > 0 {
		t.Errorf("the second operator has written %d records", len(written))
	}

	// A restart, and another replica, of the first instance have the cluster.
	first.KillAndRestartOperator(t)
	install.Change(t, first, c, func(c *v1beta1.ApiClient) { c.Spec.Description = "Changed." })
	scenario.AwaitUsable(t, first, c)
	first.AwaitValid(t, realm.Name, first.AccessToken(t, credentials), true)
}
