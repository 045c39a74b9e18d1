package observers_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/console"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// customerFolder returns the folder of a customer in the example.
func customerFolder(customer string) string {
	return filepath.Join(gitops, "repository", "customers", customer)
}

// thirdPartyCRDs lists the CRDs of the kinds in the example that other programs reconcile, by Go module.
var thirdPartyCRDs = map[string][]string{
	"github.com/argoproj/argo-cd/v3": {
		"manifests/crds/application-crd.yaml", "manifests/crds/applicationset-crd.yaml", "manifests/crds/appproject-crd.yaml",
	},
	"github.com/external-secrets/external-secrets": {"config/crds/bases/external-secrets.io_pushsecrets.yaml"},
	"github.com/kyverno/kyverno":                   {"config/crds/policies.kyverno.io/policies.kyverno.io_generatingpolicies.yaml"},
}

// TestCustomers applies the example repository as Flux does, with the permissions of each customer's
// service account. Each customer gets a token with the secret that it was handed over as docs/for-gitops.md
// describes, and no customer's folder can reach further.
func TestCustomers(t *testing.T) {
	cluster := env.Start(t)
	var crds []string
	for module, files := range thirdPartyCRDs {
		dir := env.Module(t, module)
		for _, file := range files {
			crds = append(crds, filepath.Join(dir, file))
		}
	}
	if _, err := envtest.InstallCRDs(cluster.Config, envtest.CRDInstallOptions{Paths: crds, ErrorIfPathMissing: true, MaxTime: time.Minute}); err != nil {
		t.Fatal(err)
	}
	inst := install.New(t, cluster, install.Settings{})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	cluster.Kubectl(t, "apply", "--filename", filepath.Join("..", "..", "..", "config", "rbac", "manage_api_credentials_role.yaml"))
	for _, namespace := range []string{"argocd", "flux-system"} {
		cluster.Kubectl(t, "create", "namespace", namespace)
	}
	repository := filepath.Join(gitops, "repository")

	// The test applies the Kustomizations itself. There are no quotas, because the API server can deny
	// everything for minutes after the CRDs are new.
	for _, file := range []string{"realms.yaml", "handover.yaml", "customer-alder.yaml", "customer-birch.yaml", "customer-cedar.yaml"} {
		objects := install.Objects(t, readFile(t, "repository", "clusters", "flux", file))
		flux := &tool{cluster: cluster}
		flux.apply(t, slices.DeleteFunc(objects, func(obj *unstructured.Unstructured) bool {
			return obj.GetKind() == "Kustomization" || obj.GetKind() == "ResourceQuota"
		}))
	}
	// The files for Argo CD and Kyverno are valid according to their CRDs. Flux's are decoded in TestExampleMatchesFluxTypes.
	for _, path := range []string{filepath.Join(repository, "clusters", "argocd"), filepath.Join(gitops, "argocd", "api-clients.yaml"), filepath.Join(gitops, "kyverno")} {
		cluster.Kubectl(t, "apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename", path)
	}

	tools := map[string]*tool{}
	built := map[string][]*unstructured.Unstructured{}
	for _, name := range []string{"realms", "handover", "customer-alder", "customer-birch", "customer-cedar"} {
		kustomization := kustomizationIn(t, name+".yaml")
		tools[name] = &tool{cluster, "system:serviceaccount:" + kustomization.Namespace + ":" + kustomization.Spec.ServiceAccountName}
		built[name] = install.Objects(t, []byte(cluster.Kubectl(t, "kustomize", filepath.Join(repository, kustomization.Spec.Path))))
	}
	directory := t.TempDir()
	shell := console.NewShell(t, directory, "KUBECONFIG="+cluster.Kubeconfig, "PATH="+strings.Join([]string{
		cluster.BinDir, filepath.Dir(install.Binary(t, cluster, "kubectl-realmkeeper")), os.Getenv("PATH"),
	}, string(filepath.ListSeparator)))
	secrets, hashes := newHashes(t, shell, directory)
	for customer, hash := range hashes {
		setHash(t, built["customer-"+customer], hash)
	}
	for name, objects := range built {
		tools[name].apply(t, objects)
	}

	clients := map[string]*v1beta1.ApiClient{}
	for _, customer := range []string{"alder", "birch", "cedar"} {
		c := install.ApiClient("customer-"+customer, "orders", "acme")
		inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
		if want := c.Namespace + ".orders"; c.Status.ClientID != want {
			t.Errorf("the client ID is %s, want %s", c.Status.ClientID, want)
		}
		clients[customer] = c
	}
	vault := push(t, inst, built["handover"][0])
	inst.AwaitTokens(t, &corev1.Secret{Data: vault["customers/alder/orders"]}, true)
	for customer, secret := range secrets {
		inst.AwaitTokens(t, scenario.Credentials(clients[customer], secret), true)
	}

	for name, manifest := range map[string]string{
		"a new Realm":                   "{apiVersion: auth.realmkeeper.dev/v1beta1, kind: Realm, metadata: {name: mine}, spec: {grants: [{name: all, namespaces: {from: All}, audiences: ['*']}]}}",
		"a grant in the Realm":          "{apiVersion: auth.realmkeeper.dev/v1beta1, kind: Realm, metadata: {name: acme}, spec: {grants: [{name: more, namespaces: {names: [customer-alder]}, scopes: ['*'], audiences: ['*']}]}}",
		"a client of another customer":  "{apiVersion: auth.realmkeeper.dev/v1beta1, kind: ApiClient, metadata: {name: orders, namespace: customer-birch}, spec: {suspend: true}}",
		"its namespace":                 "{apiVersion: v1, kind: Namespace, metadata: {name: customer-alder, labels: {plan: premium}}}",
		"its quota":                     "{apiVersion: v1, kind: ResourceQuota, metadata: {name: realmkeeper, namespace: customer-alder}, spec: {hard: {}}}",
		"a Secret":                      "{apiVersion: v1, kind: Secret, metadata: {name: mine, namespace: customer-alder}}",
		"a PushSecret":                  "{apiVersion: external-secrets.io/v1alpha1, kind: PushSecret, metadata: {name: mine, namespace: customer-alder}, spec: {}}",
		"a Kustomization's permissions": "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: mine, namespace: customer-alder}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}",
	} {
		if out, err := tools["customer-alder"].try(t, manifest); err == nil || !strings.Contains(out, "forbidden") {
			t.Errorf("%s in the folder of a customer: %v\n%s", name, err, out)
		}
		if obj := install.Objects(t, []byte(manifest))[0]; projectOf(t, "alder").permits(t, obj) {
			t.Errorf("Argo CD's project permits %s", name)
		}
	}
	for customer := range clients {
		for _, obj := range built["customer-"+customer] {
			if !projectOf(t, customer).permits(t, obj) {
				t.Errorf("Argo CD's project doesn't permit %s %s", obj.GetKind(), obj.GetName())
			}
		}
	}
	inst.Create(t, install.Realm("internal", func(r *v1beta1.Realm) {
		r.Spec.Grants[0].Namespaces = v1beta1.GrantedNamespaces{Names: []string{"acme-apps"}}
	}))
	for name, test := range map[string]struct {
		spec   string
		reason v1beta1.ConditionReason
	}{
		"realm": {"{realmRef: {name: internal}, secret: {generated: {}}}", v1beta1.ReasonNamespaceNotAllowed},
		"scope": {"{realmRef: {name: acme}, scopes: [orders.write], secret: {generated: {}}}", v1beta1.ReasonNotGranted},
	} {
		if out, err := tools["customer-alder"].try(t, "{apiVersion: auth.realmkeeper.dev/v1beta1, kind: ApiClient, metadata: {name: "+name+", namespace: customer-alder}, spec: "+test.spec+"}"); err != nil {
			t.Fatal(out)
		}
		inst.AwaitReady(t, install.ApiClient("customer-alder", name, ""), metav1.ConditionFalse, test.reason)
	}

	// A hash in Git outlives the object, and a generated secret doesn't.
	for _, customer := range []string{"alder", "birch"} {
		inst.Delete(t, clients[customer])
		tools["customer-"+customer].apply(t, built["customer-"+customer])
		clients[customer] = install.ApiClient("customer-"+customer, "orders", "acme")
		inst.AwaitReady(t, clients[customer], metav1.ConditionTrue, v1beta1.ReasonReady)
	}
	inst.AwaitTokens(t, &corev1.Secret{Data: vault["customers/alder/orders"]}, false)
	inst.AwaitTokens(t, scenario.Credentials(clients["birch"], secrets["birch"]), true)

	// The other commands on the page. Token servers report uses before they stop.
	shell.Rewrite = func(command string) string {
		return strings.ReplaceAll(command, "docs/gitops", absolute(t, gitops))
	}
	shell.Run(t, console.Blocks(t, "docs/for-gitops.md", "kubectl wait", "argocd-cm.yaml")...)
	inst.StopTokenServers(t)
	install.Eventually(t, "the use of birch's secret in the status", func() error {
		return used(t, cluster, clients["birch"])
	})
	shell.Run(t, console.Blocks(t, "docs/for-gitops.md", "last used")...)
}

var errUnused = errors.New("the status shows no use")

func used(t *testing.T, cluster *env.Env, c *v1beta1.ApiClient) error {
	t.Helper()
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		return err
	}
	if len(c.Status.Credentials) != 1 || c.Status.Credentials[0].LastUsedTime == nil {
		return errUnused
	}
	return nil
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// tool applies objects as a GitOps tool does: server-side, with the permissions of a user, if any.
type tool struct {
	cluster *env.Env
	user    string
}

func (a *tool) apply(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	if out, err := a.try(t, manifestOf(t, objects)); err != nil {
		t.Fatalf("%q can't apply: %v\n%s", a.user, err, out)
	}
}

func manifestOf(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	var manifest strings.Builder
	for _, obj := range objects {
		content, err := obj.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		manifest.WriteString("---\n")
		manifest.Write(content)
	}
	return manifest.String()
}

func (a *tool) try(t *testing.T, manifest string) (out string, err error) {
	t.Helper()
	args := []string{"--kubeconfig", a.cluster.Kubeconfig, "apply", "--server-side", "--force-conflicts", "--field-manager", "kustomize-controller", "--filename", "-"}
	if a.user != "" {
		args = append(args, "--as", a.user)
	}
	kubectl := exec.CommandContext(t.Context(), filepath.Join(a.cluster.BinDir, "kubectl"), args...)
	kubectl.Stdin = strings.NewReader(manifest)
	output, err := kubectl.CombinedOutput()
	return string(output), err
}

// newHashes returns the client secrets that the commands on the page write to files in the shell's directory,
// and the entries of spec.secret.hashed that they print, by customer.
func newHashes(t *testing.T, shell *console.Shell, directory string) (secrets map[string]string, entries map[string]any) {
	t.Helper()
	var printed []string
	shell.Replace = func(output string) string {
		if strings.Contains(output, "hashed:") {
			printed = append(printed, output)
		}
		return output
	}
	shell.Run(t, console.Blocks(t, "docs/for-gitops.md", "hash --id 2026-11")...)
	shell.Replace = nil
	secrets, entries = map[string]string{}, map[string]any{}
	for i, customer := range []string{"birch", "cedar"} {
		content, err := os.ReadFile(filepath.Join(directory, customer+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		hashed, _, err := unstructured.NestedSlice(install.Objects(t, []byte(printed[i]))[0].Object, "spec", "secret", "hashed")
		if err != nil || len(hashed) != 1 {
			t.Fatalf("the command printed %s: %v", printed[i], err)
		}
		secrets[customer], entries[customer] = strings.TrimSpace(string(content)), hashed[0]
	}
	return secrets, entries
}

// setHash replaces the hash of the only client in a folder, because the secret of the example is unknown.
func setHash(t *testing.T, objects []*unstructured.Unstructured, entry any) {
	t.Helper()
	if err := unstructured.SetNestedSlice(objects[0].Object, []any{entry}, "spec", "secret", "hashed"); err != nil {
		t.Fatal(err)
	}
}

// push does what External Secrets does with a PushSecret: it copies keys of the Secret to properties in a
// store. It returns the store.
func push(t *testing.T, inst *install.Installation, obj *unstructured.Unstructured) map[string]map[string][]byte {
	t.Helper()
	pushSecret := decode[struct {
		Spec struct {
			Selector struct{ Secret struct{ Name string } }
			Data     []struct {
				Match struct {
					SecretKey string
					RemoteRef struct{ RemoteKey, Property string }
				}
			}
		}
	}](t, obj.Object)
	source := &corev1.Secret{}
	key := client.ObjectKey{Namespace: obj.GetNamespace(), Name: pushSecret.Spec.Selector.Secret.Name}
	if err := inst.Env.Client.Get(t.Context(), key, source); err != nil {
		t.Fatal(err)
	}
	store := map[string]map[string][]byte{}
	for _, data := range pushSecret.Spec.Data {
		value, ok := source.Data[data.Match.SecretKey]
		if !ok {
			t.Fatalf("the Secret has no key %s", data.Match.SecretKey)
		}
		remote := data.Match.RemoteRef
		if store[remote.RemoteKey] == nil {
			store[remote.RemoteKey] = map[string][]byte{}
		}
		store[remote.RemoteKey][remote.Property] = value
	}
	return store
}
