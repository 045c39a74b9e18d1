//go:build e2e

package e2e_test

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestLeaderFailover kills the leader. A different operator Pod must take over, and no token
// request may fail.
func TestLeaderFailover(t *testing.T) {
	needsNode(t)
	c := inUse(t)
	l := startLoad(t, c.Namespace, "load", c.Status.SecretName, "--rate", "500")

	lease := &coordinationv1.Lease{}
	get(t, systemNamespace, operator, lease)
	leader := *lease.Spec.HolderIdentity
	for _, p := range operators(t) {
		if strings.HasPrefix(leader, p.Name+"_") {
			ctr(t, "tasks", "kill", "--signal", "SIGKILL", containerOf(t, &p, "operator"))
		}
	}
	killed := time.Now()
	next := apiClient(c.Namespace, "next", "acme")
	create(t, next)
	awaitReady(t, next)
	t.Logf("the new leader completed its first reconciliation %s after the old leader was killed", time.Since(killed).Round(100*time.Millisecond))
	get(t, systemNamespace, operator, lease)
	if *lease.Spec.HolderIdentity == leader {
		t.Errorf("%s is still the leader", leader)
	}
	get(t, next.Namespace, next.Status.SecretName, &corev1.Secret{})
	l.requireNoFailures(t)
}
