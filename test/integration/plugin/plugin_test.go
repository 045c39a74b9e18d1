// Package plugin_test runs every verb of the kubectl plugin, against a real API server with a running
// operator and token servers. Backups are also restored in other control planes.
package plugin_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
)

// team is the namespace of the clients. Its name is part of golden files.
const team = "acme-apps"

// start returns an installation with the realm acme and clients in several states.
func start(t *testing.T) (*install.Installation, *shell) {
	t.Helper()
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{MaximumTokenLifetime: "2h"})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}
	if err := cluster.Client.Create(t.Context(), namespace); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	inst.Create(t, install.Realm("acme", func(r *v1beta1.Realm) {
		r.Spec.Scopes = []string{"orders.read", "orders.write"}
		r.Spec.Audiences = []string{"https://orders.acme.example"}
		r.Spec.Grants = []v1beta1.Grant{{
			Name: "apps", Namespaces: v1beta1.GrantedNamespaces{Names: []string{team}}, Scopes: []string{"orders.read", "orders.write"},
			Audiences: v1beta1.GrantedAudiences{"*"}, Issuers: []string{v1beta1.IssuerKubernetes},
		}}
	}))
	return inst, newShell(t, cluster)
}

func newClient(name string, change ...func(*v1beta1.ApiClient)) *v1beta1.ApiClient {
	return install.ApiClient(team, name, "acme", append([]func(*v1beta1.ApiClient){func(c *v1beta1.ApiClient) {
		c.Spec.Scopes = []string{"orders.read"}
	}}, change...)...)
}

func TestPlugin(t *testing.T) {
	inst, sh := start(t)
	billing := newClient("billing", func(c *v1beta1.ApiClient) { c.Spec.Description = "Sends invoices" })
	suspended := newClient("reports", func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
	rejected := newClient("shipping", func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{"orders.read", "admin"} })
	inst.Create(t, billing, suspended, rejected)
	inst.AwaitReady(t, billing, metav1.ConditionTrue, v1beta1.ReasonReady)
	inst.AwaitReady(t, suspended, metav1.ConditionFalse, v1beta1.ReasonSuspended)
	inst.AwaitReady(t, rejected, metav1.ConditionFalse, v1beta1.ReasonScopeNotInRealm)
	inst.AwaitSettled(t)

	inst.AwaitTokenServers(t)

	// The output of these commands depends on all objects, so they run before the subtests that add
	// some.
	plugin.Golden(t, "status.golden", sh.succeeds(t, "kubectl realmkeeper status"))
	plugin.Golden(t, "status-realm.golden", sh.succeeds(t, "kubectl realmkeeper status acme"))
	checkStatusFormats(t, sh)
	plugin.Golden(t, "explain-realm.golden", sh.succeeds(t, "kubectl realmkeeper explain realm/acme"))
	ready := sh.succeeds(t, "kubectl realmkeeper explain apiclient/billing -n "+team)
	plugin.Golden(t, "explain-ready.golden", ready[:strings.Index(ready+"\nEVENTS", "\nEVENTS")])
	plugin.Golden(t, "explain-not-ready.golden", func() string {
		got := sh.run(t, "kubectl realmkeeper explain apiclient/shipping -n "+team)
		if got.Code != 1 || got.Stderr != "" {
			t.Errorf("explain of a client that is not Ready: exit code %d, %q; want 1 and no error", got.Code, got.Stderr)
		}
		return got.Stdout[:strings.Index(got.Stdout+"\nEVENTS", "\nEVENTS")]
	}())
	t.Run("verbs", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *install.Installation, *shell){
			"create":                 testCreate,
			"create nothing":         testCreateNothing,
			"create as a tenant":     testCreateAsTenant,
			"suspend and resume":     testSuspendAndResume,
			"release":                testRelease,
			"token":                  testToken,
			"revoke":                 testRevoke,
			"revoke a secret":        testRevokeSecret,
			"rotate":                 testRotate,
			"rotate a realm":         testRotateRealm,
			"stale":                  testStale,
			"errors":                 testErrors,
			"permissions":            testPermissions,
			"managed by GitOps":      testManagedByGitOps,
			"completion":             testCompletion,
			"commands fix the cause": testCommandsFixTheCause,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, inst, sh)
			})
		}
	})
}

// checkStatusFormats checks the JSON and YAML output of status.
func checkStatusFormats(t *testing.T, sh *shell) {
	t.Helper()
	type status struct {
		Problems []struct {
			Reason  string
			Objects []string
		}
		Instance struct{ TokenServers []struct{ Name string } }
		Clients  map[string]int
	}
	var fromJSON, fromYAML status
	if err := json.Unmarshal([]byte(sh.succeeds(t, "kubectl realmkeeper status -o json -A")), &fromJSON); err != nil {
		t.Error(err)
	}
	if err := yaml.Unmarshal([]byte(sh.succeeds(t, "kubectl realmkeeper status -o yaml")), &fromYAML); err != nil {
		t.Error(err)
	}
	for _, s := range []status{fromJSON, fromYAML} {
		if len(s.Problems) != 1 || s.Problems[0].Objects[0] != team+"/shipping" || len(s.Instance.TokenServers) != 2 || s.Clients["Suspended"] != 1 {
			t.Errorf("status is %+v", s)
		}
	}
	if other := sh.succeeds(t, "kubectl realmkeeper status -n default -o json"); strings.Contains(other, "shipping") {
		t.Errorf("status of another namespace contains a client: %s", other)
	}
}
