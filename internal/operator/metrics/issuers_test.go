package metrics_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
)

func TestIssuerMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := metrics.New(registry, func() int { return 0 })
	at := time.Unix(1_800_000_000, 0)
	m.IssuerWanted("acme", "down", at)
	m.IssuerFetched("acme", "down", 0, at.Add(time.Minute), errors.New("unavailable"))
	for _, issuer := range []string{"github", "forgotten"} {
		m.IssuerWanted("acme", issuer, at)
		m.IssuerFetched("acme", issuer, 3, at.Add(time.Minute), nil)
		m.IssuerFetched("acme", issuer, 0, at.Add(time.Hour), errors.New("unavailable"))
	}
	m.ForgetIssuer("acme", "forgotten")
	m.ForgetIssuer("shop", "github")

	got := gather(t, registry)
	for name := range got {
		if !strings.HasPrefix(name, "realmkeeper_issuer_") {
			delete(got, name)
		}
	}
	want := map[string]float64{
		// Labels are sorted by name: issuer, outcome, realm.
		"realmkeeper_issuer_fetches_total{down,success,acme}":            0,
		"realmkeeper_issuer_fetches_total{down,failure,acme}":            1,
		"realmkeeper_issuer_fetches_total{github,success,acme}":          1,
		"realmkeeper_issuer_fetches_total{github,failure,acme}":          1,
		"realmkeeper_issuer_keys{github,acme}":                           3,
		"realmkeeper_issuer_last_success_timestamp_seconds{down,acme}":   1_800_000_000,
		"realmkeeper_issuer_last_success_timestamp_seconds{github,acme}": 1_800_000_060,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
