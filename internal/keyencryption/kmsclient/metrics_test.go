package kmsclient_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/realmkeeper/realmkeeper/internal/keyencryption/kmsclient"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

// A standby operator sends no requests, so it must not look as if its plugin were unavailable.
func TestAvailabilityIsUnknownBeforeTheFirstRequest(t *testing.T) {
	plugin := newFakePlugin(t)
	registry := prometheus.NewRegistry()
	client := testkit.Value(kmsclient.Dial(kmsclient.Options{Socket: plugin.Socket, Timeout: longTimeout, Metrics: kmsclient.NewMetrics(registry)}))(t)
	t.Cleanup(func() { _ = client.Close() })
	const name = "realmkeeper_kms_available"
	if n, err := testutil.GatherAndCount(registry, name); n != 0 || err != nil {
		t.Errorf("%d metrics before the first request, %v", n, err)
	}
	for health, want := range map[string]float64{"ok": 1, "broken": 0} {
		plugin.SetHealth(health)
		_, _ = client.Status(t.Context())
		families := testkit.Value(registry.Gather())(t)
		for _, family := range families {
			if family.GetName() == name && family.GetMetric()[0].GetGauge().GetValue() != want {
				t.Errorf("health %q: %v", health, family)
			}
		}
		if n, err := testutil.GatherAndCount(registry, name); n != 1 || err != nil {
			t.Errorf("health %q: %d metrics, %v", health, n, err)
		}
	}
}
