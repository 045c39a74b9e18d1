//go:build e2e

package e2e_test

import (
	"flag"
	"fmt"
	"strconv"
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
