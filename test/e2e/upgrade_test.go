//go:build e2e

package e2e_test

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
)

// TestUpgradeRollbackReinstall upgrades from the previous release to this commit with Helm. E2E_HELM lists the
// major versions of Helm to test. The chart's reinstall_test.go switches from one to the other.
func TestUpgradeRollbackReinstall(t *testing.T) {
	for helm := range strings.FieldsSeq(cmp.Or(os.Getenv("E2E_HELM"), "helm")) {
		t.Run(helm, func(t *testing.T) {
			testUpgradeRollbackReinstall(t, lifecycle{
				installPrevious: func(t *testing.T) { installPrevious(t, helm) },
				upgrade:         func(t *testing.T) { run(t, tool(helm), installArgs("upgrade", chart, currentVersion)...) },
				rollback: func(t *testing.T) {
					run(t, tool(helm), "rollback", release, "--namespace", systemNamespace, "--wait", "--timeout", "4m")
				},
				uninstall: func(t *testing.T) { run(t, tool(helm), "uninstall", release, "--namespace", systemNamespace, "--wait") },
				install:   func(t *testing.T) { run(t, tool(helm), installArgs("install", chart, currentVersion)...) },
			})
		})
	}
}

// lifecycle has what changes the installation.
type lifecycle struct{ installPrevious, upgrade, rollback, uninstall, install func(t *testing.T) }

// testUpgradeRollbackReinstall upgrades from the previous release to this commit, rolls back, and upgrades
// again, as docs/operations/upgrade.md describes. No token request may fail meanwhile, and everything must be
// preserved. Uninstalling must preserve the objects that can't be recreated, and a new installation must reuse
// them.
func testUpgradeRollbackReinstall(t *testing.T, do lifecycle) {
	t.Helper()
	do.installPrevious(t)
	c := apiClient(namespace(t, "apps"), "billing", "acme")
	create(t, realm("acme"), c)
	awaitReady(t, c)
	apis := namespace(t, "apis")
	secret := &corev1.Secret{}
	get(t, c.Namespace, c.Status.SecretName, secret)
	address := serveOrders(t, apis, secret)
	kept := keptObjects(t)
	old := fetchToken(t, c)

	stillTheSame := func(t *testing.T) {
		t.Helper()
		if diff := gocmp.Diff(kept, keptObjects(t)); diff != "" {
			t.Errorf("records, keys or objects changed (-before +now):\n%s", diff)
		}
		awaitReady(t, c)
		callers := []*corev1.Pod{startCall(t, c, address, "--token", old), startCall(t, c, address)}
		for _, caller := range callers {
			if printed := succeeds(t, caller); !strings.Contains(printed, "200 OK") {
				t.Errorf("the API returns %s, want 200 OK", printed)
			}
		}
	}
	upgrade := func() {
		do.upgrade(t)
		awaitImage(t, currentVersion)
	}
	l := startLoad(t, c.Namespace, "load", c.Status.SecretName, "--enough", strconv.Itoa(*requests), "--rate", "250")
	upgrade()
	stillTheSame(t)
	for first := true; first || !l.printed(t, "enough"); first = false {
		do.rollback(t)
		awaitImage(t, previousVersion)
		stillTheSame(t)
		upgrade()
		awaitRollout(t, tokenService)
	}
	l.requireNoFailures(t)
	stillTheSame(t)

	do.uninstall(t)
	awaitTokenServersDeleted(t)
	if diff := gocmp.Diff(kept, keptObjects(t)); diff != "" {
		t.Errorf("records, keys or objects changed when uninstalling (-before +now):\n%s", diff)
	}

	// The operators can't release their Lease, because Helm deletes their permissions first. Without
	// the Lease, the new operators don't wait until it expires.
	kubectl(t, "delete", "lease", "--ignore-not-found", "--namespace", systemNamespace, operator)
	do.install(t)
	awaitTokenServers(t, currentVersion)
	stillTheSame(t)
}

// keptObjects returns the data that must survive an upgrade and an uninstallation: the UIDs of all
// Realms and ApiClients, and the contents of all records and credentials Secrets.
func keptObjects(t *testing.T) map[string]string {
	t.Helper()
	kept := map[string]string{}
	realms, clients, secrets := &v1beta1.RealmList{}, &v1beta1.ApiClientList{}, &corev1.SecretList{}
	for _, list := range []client.ObjectList{realms, clients, secrets} {
		if err := cluster.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range realms.Items {
		kept["Realm "+r.Name] = string(r.UID)
	}
	for _, c := range clients.Items {
		kept["ApiClient "+c.Namespace+"/"+c.Name] = string(c.UID)
	}
	for _, s := range secrets.Items {
		if _, record := s.Labels[v1beta1.RecordLabel]; record && s.Name != beacon.Name {
			kept["record "+s.Name] = string(s.Data["record.json"])
		}
		if _, consumer := s.Labels[v1beta1.ClientSecretLabel]; consumer {
			kept["Secret "+s.Namespace+"/"+s.Name] = string(s.Data["client_secret"])
		}
	}
	return kept
}

// fetchToken requests an access token in a Pod and returns it.
func fetchToken(t *testing.T, c *v1beta1.ApiClient) string {
	t.Helper()
	p := pod(c.Namespace, "", c.Status.SecretName, "token")
	p.GenerateName = "token-"
	create(t, p)
	return strings.TrimSpace(succeeds(t, p))
}

// startCall starts a Pod that calls the API with a new token, or with the one in more.
func startCall(t *testing.T, c *v1beta1.ApiClient, address string, more ...string) *corev1.Pod {
	t.Helper()
	p := pod(c.Namespace, "", c.Status.SecretName, append([]string{"call", "--url", address + "/orders"}, more...)...)
	p.GenerateName = "call-"
	create(t, p)
	return p
}

// awaitTokenServersDeleted waits until the token servers are deleted. They may still drain.
func awaitTokenServersDeleted(t *testing.T) {
	t.Helper()
	eventually(t, "the token servers to be deleted", func() error {
		err := cluster.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: tokenService}, &appsv1.Deployment{})
		if err == nil {
			return fmt.Errorf("%w: the Deployment exists", errNotYet)
		} else if !apierrors.IsNotFound(err) {
			return err
		}
		for _, p := range tokenServers(t) {
			if p.DeletionTimestamp == nil {
				return fmt.Errorf("%w: %s", errNotYet, p.Name)
			}
		}
		return nil
	})
}
