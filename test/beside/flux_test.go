//go:build beside

package beside_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

func TestMain(m *testing.M) { env.Main(m, env.WithControllerManager(), env.WithExternalIssuers("")) }

const fluxNamespace = "flux-system"

// flux is Flux with a Git repository, in a cluster in which Realmkeeper runs.
type flux struct {
	*install.Installation
	section section
	dir     string
	work    string // a clone of the repository
	// kustomize is kustomize-controller, which stops after the test.
	kustomize *process.Process
	test      *testing.T
	// secrets are those of the customers whose secrets are hashed.
	secrets map[string]string
	// seen is what the Kustomizations report, by the name of the commit on the page.
	seen map[string]string
}

// TestFlux runs Flux with the example repository of docs/for-gitops.md, and commits changes to it. Timeouts of the
// example are shorter.
func TestFlux(t *testing.T) {
	if !selected(t, fluxHeading) {
		return
	}
	f := startFlux(t)
	t.Run("order", f.testOrder)
	t.Run("quiet", f.testQuiet)
	t.Run("secrets", f.testSecrets)
	t.Run("health", f.testHealth)
	t.Run("mistakes", f.testMistakes)
	t.Run("drift", f.testDrift)
	t.Run("urgent", f.testUrgentChange)
	t.Run("removed customers", f.testRemovedCustomers)
	t.Run("removed Realm", f.testRemovedRealm)

	want := readSection(t, fluxPage, fluxHeading).outcomes("Commit")
	for name, text := range want { // The page shortens long messages.
		if start, ok := strings.CutSuffix(text, " ..."); ok && strings.HasPrefix(f.seen[name], start) {
			f.seen[name] = text
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.seen)) {
		t.Logf("%-40s %s", name, f.seen[name])
	}
	if diff := gocmp.Diff(want, f.seen); diff != "" {
		t.Errorf("(-docs/works-with/%s +seen):\n%s", fluxPage, diff)
	}
}

// startFlux starts everything except the Kustomizations.
func startFlux(t *testing.T) *flux {
	t.Helper()
	cluster := env.Start(t)
	root := filepath.Join("..", "..")
	crds := []string{filepath.Join(env.Module(t, "github.com/external-secrets/external-secrets"), "config", "crds", "bases", "external-secrets.io_pushsecrets.yaml")}
	for _, controller := range []string{"source-controller", "kustomize-controller"} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-C", filepath.Join("flux", controller), "-m", "-f", "{{.Dir}}", "github.com/fluxcd/"+controller).Output()
		if err != nil {
			t.Fatal(err)
		}
		crds = append(crds, filepath.Join(strings.TrimSpace(string(out)), "config", "crd", "bases"))
	}
	if _, err := envtest.InstallCRDs(cluster.Config, envtest.CRDInstallOptions{Paths: crds, ErrorIfPathMissing: true, MaxTime: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for _, add := range []func() error{func() error { return sourcev1.AddToScheme(cluster.Client.Scheme()) }, func() error { return kustomizev1.AddToScheme(cluster.Client.Scheme()) }} {
		if err := add(); err != nil {
			t.Fatal(err)
		}
	}
	f := &flux{
		Installation: install.New(t, cluster, install.Settings{ProtectRealms: true}), section: readSection(t, fluxPage, fluxHeading),
		dir: t.TempDir(), work: t.TempDir(), test: t, seen: map[string]string{},
		secrets: map[string]string{"birch": "birch-1-" + strings.Repeat("x", 40), "cedar": "cedar-1-" + strings.Repeat("x", 40)},
	}
	f.StartOperator(t, "")
	f.StartTokenServer(t)
	f.ApplyFile(t, "config", "rbac", "manage_api_credentials_role.yaml")
	cluster.Kubectl(t, "create", "namespace", fluxNamespace)

	bare := filepath.Join(t.TempDir(), "gitops.git")
	f.git(t, "init", "--quiet", "--bare", "--initial-branch=main", bare)
	f.git(t, "clone", "--quiet", bare, ".")
	backend := strings.TrimSpace(f.git(t, "--exec-path")) + "/git-http-backend"
	server := httptest.NewServer(&cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(bare), "GIT_HTTP_EXPORT_ALL=1"}})
	t.Cleanup(server.Close)
	if err := os.CopyFS(f.work, os.DirFS(filepath.Join(root, "docs", "gitops", "repository"))); err != nil {
		t.Fatal(err)
	}
	f.remove(t, "clusters/argocd")
	f.remove(t, "clusters/flux/realmkeeper.yaml") // The test has installed it.
	for _, name := range []string{"realms", "handover", "customer-alder", "customer-birch", "customer-cedar"} {
		f.replace(t, "clusters/flux/"+name+".yaml", "retryInterval: 30s", "retryInterval: 5s")
		f.replace(t, "clusters/flux/"+name+".yaml", "timeout: 5m", "timeout: 30s")
	}
	// The API server can deny everything for minutes after the CRDs of a quota are new.
	for _, customer := range customers {
		path := "clusters/flux/customer-" + customer + ".yaml"
		f.write(t, path, quota.ReplaceAllString(f.read(t, path), ""))
	}

	storage := "127.0.0.1:" + reservePort(t)
	f.start("source-controller", "--storage-path="+t.TempDir(), "--storage-addr="+storage, "--storage-adv-addr="+storage)
	f.kustomize = f.start("kustomize-controller", requeue)
	// What flux bootstrap creates.
	sync := strings.ReplaceAll(f.section.block(t, "yaml"), "https://git.example.com/platform", server.URL)
	manifest := filepath.Join(f.dir, "sync.yaml")
	if err := os.WriteFile(manifest, []byte(sync), 0o600); err != nil {
		t.Fatal(err)
	}
	// The first commit lacks the Realm. The customer birch depends on it.
	f.hide(t, "clusters/flux/realms.yaml")
	f.replace(t, "clusters/flux/customer-birch.yaml", "  prune: true", "  prune: true\n  dependsOn: [{name: realms}]")
	f.save(t, "Add three customers")
	cluster.Kubectl(t, "apply", "--filename", manifest)
	return f
}

var quota = regexp.MustCompile(`(?s)apiVersion: v1\nkind: ResourceQuota\n.*?\n---\n`)

// requeue is an argument of kustomize-controller: how often it checks dependencies.
const requeue = "--requeue-dependency=5s"

// start starts a controller of Flux, which runs until the end of the test.
func (f *flux) start(name string, args ...string) *process.Process {
	t := f.test
	t.Helper()
	health := "127.0.0.1:" + reservePort(t)
	running, err := process.Start(process.Command{
		Name: name, Path: built(name), Dir: f.dir,
		Args: append([]string{"--watch-all-namespaces", "--metrics-addr=0", "--health-addr=" + health}, args...),
		Env:  []string{"KUBECONFIG=" + f.Env.Kubeconfig, "RUNTIME_NAMESPACE=" + fluxNamespace, "TMPDIR=" + t.TempDir()},
	})
	if err != nil {
		t.Fatalf("%v; run make beside, which builds it and sets %s", err, programBinaries)
	}
	t.Cleanup(func() {
		if err := running.Stop(time.Minute); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if t.Failed() {
			t.Logf("End of the log of %s:\n%s", name, running.LogTail())
		}
	})
	install.Eventually(t, name+" to start", reachable(health))
	return running
}

// testOrder commits the Realm after its customers.
func (f *flux) testOrder(t *testing.T) {
	f.seeReason(t, "customers before their Realm", "customer-alder", fluxmeta.HealthCheckFailedReason)
	if reason := f.ready(t, f.client(t, "alder")).Reason; reason != string(v1beta1.ReasonRealmNotFound) {
		t.Errorf("the client without its Realm has the reason %s", reason)
	}
	f.seeReason(t, "the same with dependsOn", "customer-birch", fluxmeta.DependencyNotReadyReason)
	if err := install.NotFound(f.Env.Client.Get(t.Context(), kube.ObjectKeyFromObject(ordersOf("birch")), ordersOf("birch"))); err != nil {
		t.Errorf("the client of a Kustomization that depends on the Realm: %v", err)
	}
	f.restore(t, "clusters/flux/realms.yaml")
	revision := f.push(t, "Add the Realm")
	f.see(t, "the Realm of these customers", "customer-alder", revision)
	for _, name := range []string{"realms", "handover", "customer-alder", "customer-birch", "customer-cedar"} {
		f.wantReady(t, name, revision)
	}
	for _, customer := range customers {
		f.AwaitReady(t, ordersOf(customer), metav1.ConditionTrue, v1beta1.ReasonReady)
	}
}

// testQuiet checks that nothing is written while nothing changes.
func (f *flux) testQuiet(t *testing.T) {
	realm := &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: acme}}
	install.Eventually(t, "the Realm to count its clients", func() error {
		if err := f.Env.Client.Get(t.Context(), kube.ObjectKeyFromObject(realm), realm); err != nil {
			return err
		}
		if n := realm.Status.Clients; n == nil || int(*n) != len(customers) {
			return fmt.Errorf("%w: %+v", errUnfinished, realm.Status)
		}
		return nil
	})
	objects := func() map[string]string {
		versions := map[string]string{}
		all := []kube.Object{realm, f.credentials(t)}
		for _, customer := range customers {
			c := f.client(t, customer)
			all = append(all, c, scenario.Record(t, f.Installation, c))
		}
		for _, o := range all {
			if err := f.Env.Client.Get(t.Context(), kube.ObjectKeyFromObject(o), o); err != nil {
				t.Fatal(err)
			}
			versions[fmt.Sprintf("%T %s", o, kube.ObjectKeyFromObject(o))] = o.GetResourceVersion()
		}
		return versions
	}
	before := objects()
	for range 5 {
		for _, name := range []string{fluxNamespace, "realms", "customer-alder", "customer-birch", "customer-cedar"} {
			f.reconcile(t, name)
		}
	}
	if diff := gocmp.Diff(before, objects()); diff != "" {
		t.Errorf("five reconciliations of each Kustomization have changed resource versions (-before +after):\n%s", diff)
	}
}

// testSecrets rotates a hashed secret and a generated one.
func (f *flux) testSecrets(t *testing.T) {
	for customer, secret := range f.secrets {
		path := "customers/" + customer + "/orders.yaml"
		old := regexp.MustCompile(`hash: "(.+)"`).FindStringSubmatch(f.read(t, path))
		f.replace(t, path, old[1], f.hash(t, secret))
	}
	f.see(t, "new secrets", "customer-birch", f.push(t, "Set the secrets"))
	for customer, secret := range f.secrets {
		f.wantToken(t, customer, secret, true)
	}
	const path = "customers/birch/orders.yaml"
	first := f.read(t, path)
	next := "birch-2-" + strings.Repeat("y", 40)
	f.write(t, path, strings.TrimRight(first, "\n")+"\n      - id: \"2026-12\"\n        hash: \""+f.hash(t, next)+"\"\n")
	f.see(t, "a second hash", "customer-birch", f.push(t, "Add a secret of Birch"))
	f.wantToken(t, "birch", next, true)
	f.wantToken(t, "birch", f.secrets["birch"], true)
	f.write(t, path, regexp.MustCompile(`(?m)^ +- id: "2026-11"\n.*\n`).ReplaceAllString(f.read(t, path), ""))
	f.see(t, "without the first hash", "customer-birch", f.push(t, "Remove the old secret of Birch"))
	f.wantToken(t, "birch", f.secrets["birch"], false)
	f.wantToken(t, "birch", next, true)
	f.secrets["birch"] = next

	old := f.credentials(t)
	f.wantToken(t, "alder", scenario.ClientSecret(old), true)
	requested := f.client(t, "alder").Status.Secrets()[0].CreationTime.Add(time.Second).UTC().Format(time.RFC3339)
	f.replace(t, "customers/alder/orders.yaml", "      rotation:\n", "      rotation:\n        rotationRequestTime: \""+requested+"\"\n")
	f.see(t, "rotationRequestTime", "customer-alder", f.push(t, "Rotate the secret of Alder"))
	install.Eventually(t, "a new secret of alder", func() error {
		if scenario.ClientSecret(f.credentials(t)) == scenario.ClientSecret(old) {
			return errors.New("it is still the old one")
		}
		return nil
	})
	f.wantToken(t, "alder", scenario.ClientSecret(f.credentials(t)), true)
	f.wantToken(t, "alder", scenario.ClientSecret(old), true) // until it is unused
}

// testHealth checks that a Kustomization is Ready when the clients are as their manifests say.
func (f *flux) testHealth(t *testing.T) {
	thaw := f.FreezeOperator(t)
	f.replace(t, "customers/cedar/orders.yaml", "tokenLifetime: 10m", "tokenLifetime: 5m")
	revision := f.push(t, "Shorten the tokens of Cedar")
	f.see(t, "a change while the operator is down", "customer-cedar", revision)
	thaw()
	f.wantReady(t, "customer-cedar", revision)
	if c := f.client(t, "cedar"); c.Status.ObservedGeneration != c.Generation {
		t.Errorf("the Kustomization is ready, but the operator has observed generation %d of %d", c.Status.ObservedGeneration, c.Generation)
	}

	f.replace(t, "customers/birch/orders.yaml", "spec:\n", "spec:\n  suspend: true\n")
	f.see(t, "suspend: true", "customer-birch", f.push(t, "Suspend Birch"))
	f.wantToken(t, "birch", f.secrets["birch"], false)
	const path = "clusters/flux/customer-birch.yaml"
	kustomization := f.read(t, path)
	without, _, _ := strings.Cut(kustomization, "  healthCheckExprs:")
	f.write(t, path, without)
	f.see(t, "the same without healthCheckExprs", "customer-birch", f.push(t, "Use the default health check"))
	f.write(t, path, kustomization)
	f.replace(t, "customers/birch/orders.yaml", "  suspend: true\n", "")
	f.wantReady(t, "customer-birch", f.push(t, "Resume Birch"))
	f.wantToken(t, "birch", f.secrets["birch"], true)
}

// testMistakes commits invalid manifests together with valid ones.
func (f *flux) testMistakes(t *testing.T) {
	const path = "customers/cedar/orders.yaml"
	valid := f.read(t, path)
	generation := f.client(t, "cedar").Generation
	reports := ordersOf("cedar")
	reports.Name = "reports"
	f.write(t, "customers/cedar/reports.yaml", strings.ReplaceAll(valid, "name: orders", "name: reports"))
	f.replace(t, "customers/cedar/kustomization.yaml", "  - orders.yaml\n", "  - orders.yaml\n  - reports.yaml\n")
	for _, mistake := range []struct{ name, old, changed string }{
		{"an unknown field", "tokenLifetime:", "tokenLifetme:"},
		{"an invalid value", "tokenLifetime: 5m", "tokenLifetime: soon"},
		{"another Realm", "name: acme", "name: other"},
		{"invalid YAML", "tokenLifetime: 5m", "tokenLifetime: 5m: 6m"},
	} {
		f.write(t, path, valid)
		f.replace(t, path, mistake.old, mistake.changed)
		revision := f.push(t, "Change "+mistake.name)
		f.see(t, mistake.name, "customer-cedar", revision)
		f.wantReady(t, "customer-birch", revision)
		if err := install.NotFound(f.Env.Client.Get(t.Context(), kube.ObjectKeyFromObject(reports), reports)); err != nil {
			t.Errorf("%s: another client of this folder: %v", mistake.name, err)
		}
		if c := f.client(t, "cedar"); c.Generation != generation {
			t.Errorf("%s: the client has changed", mistake.name)
		}
		f.wantToken(t, "cedar", f.secrets["cedar"], true)
	}
	f.write(t, path, valid)
	f.replace(t, path, "    - orders.write\n", "    - orders.write\n    - orders.delete\n")
	f.see(t, "a scope that the Realm lacks", "customer-cedar", f.push(t, "Add a scope"))
	if reason := f.ready(t, f.client(t, "cedar")).Reason; reason != string(v1beta1.ReasonScopeNotInRealm) {
		t.Errorf("the client with another scope has the reason %s", reason)
	}
	f.wantToken(t, "cedar", f.secrets["cedar"], false)
	f.AwaitReady(t, reports, metav1.ConditionTrue, v1beta1.ReasonReady)

	// Birch depends on the Realm.
	f.write(t, path, valid)
	f.replace(t, "realms/acme.yaml", "tokenLifetime: 30m", "tokenLifetime: soon")
	f.replace(t, "customers/birch/orders.yaml", "spec:\n", "spec:\n  suspend: true\n")
	revision := f.push(t, "Suspend Birch and change the Realm")
	f.see(t, "an invalid Realm", "realms", revision)
	f.seeReason(t, "a change of a customer that depends on it", "customer-birch", fluxmeta.DependencyNotReadyReason)
	f.wantReady(t, "customer-cedar", revision)
	if f.client(t, "birch").Spec.Suspend {
		t.Error("the client of a Kustomization that depends on the Realm has changed")
	}
	f.replace(t, "realms/acme.yaml", "tokenLifetime: soon", "tokenLifetime: 30m")
	f.replace(t, "customers/birch/orders.yaml", "  suspend: true\n", "")
	f.replace(t, "clusters/flux/customer-birch.yaml", "  dependsOn: [{name: realms}]\n", "")
	revision = f.push(t, "Mend everything")
	for _, name := range []string{"realms", "customer-birch", "customer-cedar"} {
		f.wantReady(t, name, revision)
	}
	f.wantToken(t, "cedar", f.secrets["cedar"], true)
}

// testDrift changes clients in the cluster.
func (f *flux) testDrift(t *testing.T) {
	alder := f.client(t, "alder")
	token := f.AccessToken(t, f.credentials(t))
	before := f.credentials(t).ResourceVersion
	f.Env.Kubectl(t, "patch", "apiclient", "orders", "--namespace=customer-cedar", "--type=merge", `--patch={"spec":{"tokenLifetime":"1h"}}`)
	f.Env.Kubectl(t, "patch", "apiclient", "orders", "--namespace=customer-birch", "--type=merge", `--patch={"spec":{"suspend":true}}`)
	f.plugin(t, "suspend", "apiclient/orders", "--namespace=customer-cedar")
	f.plugin(t, "revoke", "apiclient/orders", "--namespace=customer-alder", "--wait")
	f.AwaitValid(t, acme, token, false)
	for _, customer := range customers {
		f.reconcile(t, "customer-"+customer)
	}
	if lifetime := f.client(t, "cedar").Spec.TokenLifetime; lifetime.Duration != 5*time.Minute {
		t.Errorf("a field that Git sets is %s", lifetime.Duration)
	}
	if f.client(t, "birch").Spec.Suspend {
		t.Error("Flux keeps a field that Git doesn't set, although kubectl has set it")
	}
	if !f.client(t, "cedar").Spec.Suspend {
		t.Error("Flux reverts a suspension of the plugin")
	}
	f.wantToken(t, "cedar", f.secrets["cedar"], false)
	if f.client(t, "alder").Spec.TokensValidAfterTime == nil {
		t.Error("Flux reverts a revocation of the plugin")
	}
	f.AwaitReady(t, alder, metav1.ConditionTrue, v1beta1.ReasonReady)
	f.AwaitValid(t, acme, token, false)
	f.wantToken(t, "birch", f.secrets["birch"], true)
	f.plugin(t, "resume", "apiclient/orders", "--namespace=customer-cedar")
	f.reconcile(t, "customer-cedar")
	f.wantToken(t, "cedar", f.secrets["cedar"], true)
	if after := f.credentials(t).ResourceVersion; after != before {
		t.Errorf("the credentials Secret has changed from %s to %s", before, after)
	}
}

// testUrgentChange commits a suspension while a Kustomization waits for another client.
func (f *flux) testUrgentChange(t *testing.T) {
	suspend := func(realm string) (waiting string) {
		f.write(t, "customers/birch/early.yaml", strings.NewReplacer("name: orders", "name: "+realm, "name: acme", "name: "+realm).Replace(f.read(t, "customers/birch/orders.yaml")))
		f.replace(t, "customers/birch/kustomization.yaml", "  - orders.yaml\n", "  - orders.yaml\n  - early.yaml\n")
		waiting = f.push(t, "Add a client before its Realm")
		early := ordersOf("birch")
		early.Name = realm
		f.AwaitReady(t, early, metav1.ConditionFalse, v1beta1.ReasonRealmNotFound)
		f.replace(t, "customers/birch/orders.yaml", "spec:\n", "spec:\n  suspend: true\n")
		f.push(t, "Suspend Birch")
		f.AwaitReady(t, ordersOf("birch"), metav1.ConditionFalse, v1beta1.ReasonSuspended)
		return waiting
	}
	failed := func(revision string) bool {
		return slices.ContainsFunc(f.kustomization(t, "customer-birch").Status.History, func(s fluxmeta.Snapshot) bool {
			return s.Metadata["revision"] == revision && s.LastReconciledStatus == fluxmeta.HealthCheckFailedReason
		})
	}
	mend := func() {
		f.remove(t, "customers/birch/early.yaml")
		f.replace(t, "customers/birch/kustomization.yaml", "  - early.yaml\n", "")
		f.replace(t, "customers/birch/orders.yaml", "  suspend: true\n", "")
		f.wantReady(t, "customer-birch", f.push(t, "Resume Birch"))
	}
	if revision := suspend("later"); !failed(revision) {
		t.Error("a commit was applied before the health check of the previous one has ended")
	}
	mend()
	if err := f.kustomize.Stop(time.Minute); err != nil {
		t.Fatal(err)
	}
	f.kustomize = f.start("kustomize-controller", requeue, "--feature-gates=CancelHealthCheckOnNewRevision=true")
	if revision := suspend("much-later"); failed(revision) {
		t.Error("a commit was applied only when the health check of the previous one has ended")
	}
	mend()
}

// testRemovedCustomers removes two of the customers.
func (f *flux) testRemovedCustomers(t *testing.T) {
	f.hide(t, "customers/cedar")
	f.push(t, "Remove only the folder of Cedar")
	f.seeReason(t, "a folder removed", "customer-cedar", fluxmeta.ArtifactFailedReason)
	f.wantToken(t, "cedar", f.secrets["cedar"], true)
	f.restore(t, "customers/cedar")

	alder, credentials := f.client(t, "alder"), f.credentials(t)
	f.remove(t, "customers/alder/orders.yaml")
	f.replace(t, "customers/alder/kustomization.yaml", "resources:\n  - orders.yaml\n", "resources: []\n")
	f.see(t, "an ApiClient removed", "customer-alder", f.push(t, "Remove the client of Alder"))
	f.gone(t, alder)
	f.gone(t, credentials)
	f.AwaitTokens(t, credentials, false)
	f.remove(t, "customers/alder")
	f.remove(t, "clusters/flux/customer-alder.yaml")
	f.remove(t, "handover/alder.yaml")
	f.replace(t, "handover/kustomization.yaml", "resources:\n  - alder.yaml\n", "resources: []\n")
	f.see(t, "a customer removed", fluxNamespace, f.push(t, "Remove Alder"))
	f.gone(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "customer-alder"}})
	f.gone(t, &kustomizev1.Kustomization{ObjectMeta: metav1.ObjectMeta{Namespace: fluxNamespace, Name: "customer-alder"}})

	cedar := f.client(t, "cedar")
	f.remove(t, "customers/cedar")
	f.remove(t, "clusters/flux/customer-cedar.yaml")
	f.see(t, "a customer with clients removed", fluxNamespace, f.push(t, "Remove Cedar"))
	f.gone(t, cedar)
	f.gone(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "customer-cedar"}})
	f.gone(t, &kustomizev1.Kustomization{ObjectMeta: metav1.ObjectMeta{Namespace: fluxNamespace, Name: "customer-cedar"}})
	f.AwaitTokens(t, scenario.Credentials(cedar, f.secrets["cedar"]), false)
}

// testRemovedRealm removes the Realm of the last customer.
func (f *flux) testRemovedRealm(t *testing.T) {
	realm := &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: acme}}
	const folder, path = "realms/kustomization.yaml", "realms/acme.yaml"
	protected := f.read(t, path)
	f.remove(t, path)
	f.replace(t, folder, "resources:\n  - acme.yaml\n", "resources: []\n")
	f.see(t, "the only Realm removed", "realms", f.push(t, "Remove the only Realm"))

	remove := func() {
		f.remove(t, path)
		f.replace(t, folder, "  - acme.yaml\n", "")
	}
	f.write(t, path, protected)
	f.write(t, "realms/internal.yaml", strings.Replace(protected, "name: acme", "name: internal", 1))
	f.replace(t, folder, "resources: []\n", "resources:\n  - internal.yaml\n  - acme.yaml\n")
	f.wantReady(t, "realms", f.push(t, "Add another Realm"))
	listed := f.read(t, folder)
	remove()
	f.see(t, "a Realm removed", "realms", f.push(t, "Remove the Realm"))
	f.wantToken(t, "birch", f.secrets["birch"], true)

	f.write(t, folder, listed)
	f.write(t, path, strings.Replace(protected, "    kustomize.toolkit.fluxcd.io/prune: disabled\n", "", 1))
	f.wantReady(t, "realms", f.push(t, "Add the Realm without its annotation"))
	remove()
	f.see(t, "the same without its annotation", "realms", f.push(t, "Remove the Realm again"))
	f.wantToken(t, "birch", f.secrets["birch"], true)
	f.write(t, folder, listed)
	f.write(t, path, protected)
	f.wantReady(t, "realms", f.push(t, "Add the Realm again"))
	f.wantToken(t, "birch", f.secrets["birch"], true)

	// To delete it, remove it from Git first. Otherwise, Flux would remove the annotation of kubectl.
	annotation := v1beta1.AllowDeletionAnnotation + "=" + acme
	f.Env.Kubectl(t, "annotate", "realm", acme, annotation)
	f.reconcile(t, "realms")
	if err := f.Env.Client.Get(t.Context(), kube.ObjectKeyFromObject(realm), realm); err != nil || realm.Annotations[v1beta1.AllowDeletionAnnotation] != "" {
		t.Errorf("Flux keeps the annotation of kubectl: %v", err)
	}
	remove()
	f.wantReady(t, "realms", f.push(t, "Remove the Realm for good"))
	f.Env.Kubectl(t, "annotate", "realm", acme, annotation)
	f.Env.Kubectl(t, "delete", "realm", acme)
	f.gone(t, realm)
}

// customers are those of the example.
var customers = []string{"alder", "birch", "cedar"}

// ordersOf returns the key of the client of a customer.
func ordersOf(customer string) *v1beta1.ApiClient {
	return &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: "customer-" + customer, Name: "orders"}}
}

func (f *flux) client(t *testing.T, customer string) *v1beta1.ApiClient {
	t.Helper()
	c := ordersOf(customer)
	if err := f.Env.Client.Get(t.Context(), kube.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// credentials returns the credentials Secret of alder, the only customer with one.
func (f *flux) credentials(t *testing.T) *corev1.Secret {
	t.Helper()
	return f.CredentialsSecret(t, ordersOf("alder"))
}

func (f *flux) ready(t *testing.T, c *v1beta1.ApiClient) *metav1.Condition {
	t.Helper()
	ready := meta.FindStatusCondition(c.Status.Conditions, string(v1beta1.ConditionReady))
	if ready == nil {
		t.Fatalf("%s has no condition Ready", kube.ObjectKeyFromObject(c))
	}
	return ready
}

// wantToken waits until the client of a customer gets a token with a secret, or until the secret is rejected.
func (f *flux) wantToken(t *testing.T, customer, secret string, granted bool) {
	t.Helper()
	f.AwaitTokens(t, scenario.Credentials(f.client(t, customer), secret), granted)
}

func (f *flux) gone(t *testing.T, o kube.Object) {
	t.Helper()
	install.Eventually(t, fmt.Sprintf("%T %s to be gone", o, kube.ObjectKeyFromObject(o)), func() error {
		return install.NotFound(f.Env.Client.Get(t.Context(), kube.ObjectKeyFromObject(o), o))
	})
}

// kustomization returns a Kustomization, which is empty if it doesn't exist yet.
func (f *flux) kustomization(t *testing.T, name string) *kustomizev1.Kustomization {
	t.Helper()
	k := &kustomizev1.Kustomization{}
	if err := f.Env.Client.Get(t.Context(), kube.ObjectKey{Namespace: fluxNamespace, Name: name}, k); kube.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return k
}

// see waits until a Kustomization has finished with a revision, and notes what it reports.
func (f *flux) see(t *testing.T, name, kustomization, revision string) {
	t.Helper()
	f.seen[name] = f.outcome(t, kustomization, revision)
	t.Logf("%s: %s", name, f.seen[name])
}

// seeReason is see for revisions that the Kustomization doesn't attempt to apply. It waits for the reason instead.
func (f *flux) seeReason(t *testing.T, name, kustomization, reason string) {
	t.Helper()
	install.Eventually(t, "Kustomization "+kustomization+" to have the reason "+reason, func() error {
		k := f.kustomization(t, kustomization)
		c := meta.FindStatusCondition(k.Status.Conditions, fluxmeta.ReadyCondition)
		if c == nil || c.Reason != reason {
			return fmt.Errorf("%w: %+v", errUnfinished, k.Status.Conditions)
		}
		f.seen[name] = outcomeOf(c)
		return nil
	})
	t.Logf("%s: %s", name, f.seen[name])
}

// wantReady waits until a Kustomization is ready with a revision, also after failures.
func (f *flux) wantReady(t *testing.T, kustomization, revision string) {
	t.Helper()
	install.Eventually(t, kustomization+" to be ready", func() error {
		if got := f.outcome(t, kustomization, revision); got != ready {
			return errors.New(got)
		}
		return nil
	})
}

// ready is how outcome describes success.
const ready = "Ready"

var (
	errUnfinished = errors.New("it has not finished")
	// details match what differs from one run to the next in messages.
	details = regexp.MustCompile(` after [0-9.]+m?s`)
)

func (f *flux) outcome(t *testing.T, name, revision string) (seen string) {
	t.Helper()
	install.Eventually(t, "Kustomization "+name, func() error {
		if parent := f.kustomization(t, fluxNamespace); parent.Status.LastAppliedRevision != revision {
			return fmt.Errorf("%w: %s is at %s", errUnfinished, fluxNamespace, parent.Status.LastAppliedRevision)
		}
		k := f.kustomization(t, name)
		c := meta.FindStatusCondition(k.Status.Conditions, fluxmeta.ReadyCondition)
		if c == nil || c.Status == metav1.ConditionUnknown || c.ObservedGeneration != k.Generation || k.Status.LastAttemptedRevision != revision {
			return fmt.Errorf("%w: %+v", errUnfinished, k.Status)
		}
		seen = outcomeOf(c)
		return nil
	})
	return seen
}

func outcomeOf(c *metav1.Condition) string {
	if c.Status == metav1.ConditionTrue {
		return ready
	}
	return c.Reason + ": " + strings.Join(strings.Fields(details.ReplaceAllString(c.Message, "")), " ")
}

// reconcile does what flux reconcile kustomization does, and waits until the Kustomization is ready.
func (f *flux) reconcile(t *testing.T, name string) {
	t.Helper()
	k := f.kustomization(t, name)
	requested := f.request(t, k)
	install.Eventually(t, "the reconciliation of "+name, func() error {
		if err := f.Env.Client.Get(t.Context(), kube.ObjectKeyFromObject(k), k); err != nil {
			return err
		}
		if k.Status.LastHandledReconcileAt != requested || !meta.IsStatusConditionTrue(k.Status.Conditions, fluxmeta.ReadyCondition) {
			return fmt.Errorf("%w: %+v", errUnfinished, k.Status)
		}
		return nil
	})
}

// request requests a reconciliation, and returns the value that the object then has as lastHandledReconcileAt.
func (f *flux) request(t *testing.T, o kube.Object) string {
	t.Helper()
	at := time.Now().Format(time.RFC3339Nano)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, fluxmeta.ReconcileRequestAnnotation, at)
	if err := f.Env.Client.Patch(t.Context(), o, kube.RawPatch("application/merge-patch+json", patch), kube.FieldOwner("flux-client-side-apply")); err != nil {
		t.Fatal(err)
	}
	return at
}

// git runs git in the clone.
func (f *flux) git(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", args...)
	command.Dir = f.work
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=Test", "GIT_AUTHOR_EMAIL=test@acme.example", "GIT_COMMITTER_NAME=Test", "GIT_COMMITTER_EMAIL=test@acme.example")
	out, err := command.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			out = exit.Stderr
		}
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// save commits all changes, and returns the revision.
func (f *flux) save(t *testing.T, subject string) (revision string) {
	t.Helper()
	f.git(t, "add", "--all")
	f.git(t, "commit", "--quiet", "--message", subject)
	f.git(t, "push", "--quiet", "origin", "HEAD:main")
	return "main@sha1:" + strings.TrimSpace(f.git(t, "rev-parse", "HEAD"))
}

// push commits all changes, waits until Flux has fetched them, and returns the revision.
func (f *flux) push(t *testing.T, subject string) (revision string) {
	t.Helper()
	revision = f.save(t, subject)
	source := &sourcev1.GitRepository{ObjectMeta: metav1.ObjectMeta{Namespace: fluxNamespace, Name: fluxNamespace}}
	f.request(t, source)
	install.Eventually(t, "source-controller to fetch: "+subject, func() error {
		if err := f.Env.Client.Get(t.Context(), kube.ObjectKeyFromObject(source), source); err != nil {
			return err
		}
		if !source.GetArtifact().HasRevision(revision) {
			return fmt.Errorf("%w: %+v", errUnfinished, source.Status)
		}
		return nil
	})
	t.Log(subject)
	return revision
}

func (f *flux) read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(f.work, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func (f *flux) write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.work, path), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// replace replaces a text that a file contains.
func (f *flux) replace(t *testing.T, path, old, changed string) {
	t.Helper()
	content := f.read(t, path)
	if !strings.Contains(content, old) {
		t.Fatalf("%s doesn't contain %q:\n%s", path, old, content)
	}
	f.write(t, path, strings.Replace(content, old, changed, 1))
}

func (f *flux) remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(f.work, path)); err != nil {
		t.Fatal(err)
	}
}

// hide removes a file or folder until restore.
func (f *flux) hide(t *testing.T, path string) {
	f.move(t, filepath.Join(f.work, path), f.hidden(path))
}

func (f *flux) restore(t *testing.T, path string) {
	f.move(t, f.hidden(path), filepath.Join(f.work, path))
}

func (f *flux) hidden(path string) string {
	return filepath.Join(f.dir, strings.ReplaceAll(path, "/", "-"))
}

func (f *flux) move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// plugin runs the kubectl plugin, and returns what it prints.
func (f *flux) plugin(t *testing.T, args ...string) string {
	t.Helper()
	return f.pluginWith(t, "", args...)
}

func (f *flux) pluginWith(t *testing.T, input string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), install.Binary(t, f.Env, "kubectl-realmkeeper"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+f.Env.Kubeconfig)
	command.Stdin = strings.NewReader(input)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("kubectl realmkeeper %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// hash returns the hash of a client secret.
func (f *flux) hash(t *testing.T, secret string) string {
	t.Helper()
	printed := f.pluginWith(t, secret, "hash", "--stdin")
	found := regexp.MustCompile(`hash: "?([^"\n]+)`).FindStringSubmatch(printed)
	if found == nil {
		t.Fatalf("the plugin printed %s", printed)
	}
	return found[1]
}
