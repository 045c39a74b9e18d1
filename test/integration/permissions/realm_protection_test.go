package permissions_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

const garbageCollector = "system:serviceaccount:kube-system:generic-garbage-collector"

// TestRealmWithClientsIsProtected deletes a Realm that has a client in the ways in which it can happen by
// accident, and then as the message says.
func TestRealmWithClientsIsProtected(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{ProtectRealms: true})
	inst.StartOperator(t, "")
	folder := t.TempDir()
	manifest := manifestOf(t, folder, "acme")
	cluster.Kubectl(t, "apply", "--filename", manifest)
	first := install.ApiClient(cluster.Namespace(t), "first", "acme")
	inst.Create(t, first)
	realm := awaitClients(t, inst, "acme", 1)
	records := client.ObjectKey{Namespace: inst.RecordsNamespace, Name: record.RealmRecordName(realm.UID)}
	install.Eventually(t, "the record of the Realm", func() error { return cluster.Client.Get(t.Context(), records, &corev1.Secret{}) })
	dry := client.NewDryRunClient(cluster.Client)
	awaitDenied(t, "policy that protects Realms", func() error { return dry.Delete(t.Context(), realm.DeepCopy()) })

	impersonated := rest.CopyConfig(cluster.Config)
	impersonated.Impersonate.UserName = garbageCollector
	collector, err := client.New(impersonated, client.Options{Scheme: cluster.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	denied := func(name string, do func() error) (message string) {
		t.Helper()
		if err := do(); err == nil {
			t.Fatalf("%s: the Realm was deleted", name)
		} else if message = err.Error(); !strings.Contains(message, "Realm acme had 1 client when the operator counted them, usually in the last 5 seconds. ") {
			t.Errorf("%s: got the message\n%s", name, message)
		}
		live := &v1beta1.Realm{}
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: "acme"}, live); err != nil || live.UID != realm.UID || live.DeletionTimestamp != nil {
			t.Fatalf("%s: the Realm is %+v: %v", name, live.ObjectMeta, err)
		}
		if err := cluster.Client.Get(t.Context(), records, &corev1.Secret{}); err != nil {
			t.Fatalf("%s: the record of the Realm: %v", name, err)
		}
		return message
	}
	for name, do := range map[string]func() error{
		"kubectl delete realm":  func() error { return kubectl(t, cluster, "delete", "realm", "acme") },
		"kubectl delete -f":     func() error { return kubectl(t, cluster, "delete", "--filename", manifest) },
		"kubectl apply --prune": func() error { return prune(t, cluster, manifestOf(t, t.TempDir(), "other")) },
		"collection":            func() error { return cluster.Client.DeleteAllOf(t.Context(), &v1beta1.Realm{}) },
		"garbage collector":     func() error { return collector.Delete(t.Context(), realm.DeepCopy()) },
	} {
		denied(name, do)
	}

	cluster.Kubectl(t, "annotate", "realm", "acme", v1beta1.AllowDeletionAnnotation+"=other")
	message := denied("name of another Realm", func() error { return kubectl(t, cluster, "delete", "realm", "acme") })
	_, command, _ := strings.Cut(message, `allow the deletion with "kubectl `)
	command, _, _ = strings.Cut(command, `"`)
	cluster.Kubectl(t, strings.Fields(command)...)
	cluster.Kubectl(t, "delete", "realm", "acme")

	// The other way: delete the clients.
	inst.Create(t, install.Realm("shop"))
	second := install.ApiClient(first.Namespace, "second", "shop")
	inst.Create(t, second)
	shop := awaitClients(t, inst, "shop", 1)
	if err := cluster.Client.Delete(t.Context(), shop.DeepCopy()); err == nil {
		t.Fatal("The Realm was deleted")
	}
	inst.Delete(t, second)
	began := time.Now()
	install.Eventually(t, "the deletion of a Realm without clients", func() error { return cluster.Client.Delete(t.Context(), shop.DeepCopy()) })
	t.Logf("A Realm could be deleted %s after its last client", time.Since(began).Round(time.Millisecond))
}

var errOtherNumber = errors.New("the status has another number of clients")

// awaitClients waits until the status of a Realm has a number of clients.
func awaitClients(t *testing.T, inst *install.Installation, name string, clients int32) *v1beta1.Realm {
	t.Helper()
	realm := &v1beta1.Realm{}
	install.Eventually(t, fmt.Sprintf("%d clients of Realm %s", clients, name), func() error {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Name: name}, realm); err != nil {
			return err
		}
		if realm.Status.Clients == nil || *realm.Status.Clients != clients {
			return errOtherNumber
		}
		return nil
	})
	return realm
}

// manifestOf writes the manifest of a Realm and returns its path.
func manifestOf(t *testing.T, folder, name string) string {
	t.Helper()
	manifest := fmt.Sprintf(`apiVersion: %s
kind: Realm
metadata: {name: %s, labels: {folder: realms}}
spec: {grants: [{name: all, namespaces: {from: All}, audiences: ["*"]}]}
`, v1beta1.GroupVersion, name)
	path := filepath.Join(folder, name+".yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// prune applies a manifest and deletes all Realms that it doesn't contain.
func prune(t *testing.T, cluster *env.Env, manifest string) error {
	t.Helper()
	return kubectl(t, cluster, "apply", "--filename", manifest, "--prune", "--selector", "folder=realms",
		"--prune-allowlist", v1beta1.GroupVersion.String()+"/Realm")
}

// kubectl runs kubectl. The error contains its output.
func kubectl(t *testing.T, cluster *env.Env, args ...string) error {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(cluster.BinDir, "kubectl"), append([]string{"--kubeconfig", cluster.Kubeconfig}, args...)...)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}
