//go:build e2e

package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
)

// inUse returns a client of the reusable installation that is Ready.
func inUse(t *testing.T) *v1beta1.ApiClient {
	t.Helper()
	useInstallation(t)
	c := apiClient(namespace(t, "apps"), "billing", "acme")
	create(t, realm("acme"), c)
	awaitReady(t, c)
	return c
}

// requests is the number of token requests during each kind of disruption.
var requests = flag.Int("e2e.requests", 5_000, "Minimum number of token requests during upgrades and rollbacks, and during renewals of the serving certificate")

// TestRenewalFailsNoRequest renews the serving certificate while token requests are sent on persistent
// and new connections. No request may fail.
func TestRenewalFailsNoRequest(t *testing.T) {
	c := inUse(t)
	l := startLoad(t, c.Namespace, "load", c.Status.SecretName, "--enough", strconv.Itoa(*requests))
	for times := 1; times == 1 || !l.printed(t, "enough"); times++ {
		certificate := &corev1.Secret{}
		get(t, systemNamespace, pki.ServingSecretName, certificate)
		if err := cluster.Delete(t.Context(), certificate); err != nil {
			t.Fatal(err)
		}
		l.awaitLine(t, fmt.Sprintf("certificate %d", times+1))
	}
	l.requireNoFailures(t)
}

// TestUpgradeThatCanNotList upgrades to a chart that lacks a permission to list. The new operator must not become
// ready or lead, Helm must report it, and the former leader must still put a suspension into effect. A rollback must
// succeed.
func TestUpgradeThatCanNotList(t *testing.T) {
	needsNode(t) // It sends requests to Pods.
	c := inUse(t)
	secret := &corev1.Secret{}
	get(t, c.Namespace, c.Status.SecretName, secret)
	leader := leaderPod(t)
	broken := filepath.Join(t.TempDir(), "realmkeeper")
	if err := os.CopyFS(broken, os.DirFS(filepath.Join(root, chart))); err != nil {
		t.Fatal(err)
	}
	role := filepath.Join(broken, "templates", "rbac", "role.yaml")
	content, err := os.ReadFile(role)
	if err != nil {
		t.Fatal(err)
	}
	rule := "  - poddisruptionbudgets\n  verbs:\n  - create\n  - delete\n  - get\n"
	lacking := strings.Replace(string(content), rule+"  - list\n  - patch\n  - watch\n", rule+"  - patch\n", 1)
	if lacking == string(content) {
		t.Fatalf("%s has no such rule:\n%s", role, rule)
	}
	if err := os.WriteFile(role, []byte(lacking), 0o600); err != nil {
		t.Fatal(err)
	}

	// The last flag of a name counts. The changed request lets the Deployment create new Pods.
	args := installArgs("upgrade", broken, currentVersion, "--timeout", "30s", "--set", "operator.resources.requests.cpu=11m")
	if _, err := try(t.Context(), tool("helm"), args...); err == nil || !strings.Contains(err.Error(), "Deployment/"+systemNamespace+"/"+operator) {
		t.Errorf("helm upgrade --wait: %v, want an error that names the Deployment of the operator", err)
	}
	if now := leaderPod(t); now.UID != leader.UID {
		t.Errorf("%s leads, want the former leader %s", now.Name, leader.Name)
	}
	suspend(t, c)
	untilRefused(t, tokenServers(t), secret)

	run(t, tool("helm"), "rollback", release, "--namespace", systemNamespace, "--wait", "--timeout", "4m")
	awaitRollout(t, operator)
}

// awaitImage waits until all token servers run the given version and are ready. Older ones may still
// drain.
func awaitImage(t *testing.T, version string) {
	t.Helper()
	eventually(t, "token servers of "+version, func() error {
		d, err := updated(t, tokenService)
		if err == nil && d.Spec.Template.Spec.Containers[0].Image != image(version) {
			return fmt.Errorf("%w: %s", errNotYet, d.Spec.Template.Spec.Containers[0].Image)
		}
		return err
	})
}

// pause waits for a duration that is part of the scenario.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}
