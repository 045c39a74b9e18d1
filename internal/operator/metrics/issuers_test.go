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
		"realmkeeper_issuer_fetches_total{acme,down,success}":            0,
		"realmkeeper_issuer_fetches_total{acme,down,failure}":            1,
		"realmkeeper_issuer_fetches_total{acme,github,success}":          1,
		"realmkeeper_issuer_fetches_total{acme,github,failure}":          1,
		"realmkeeper_issuer_keys{acme,github}":                           3,
		"realmkeeper_issuer_last_success_timestamp_seconds{acme,down}":   1_800_000_000,
		"realmkeeper_issuer_last_success_timestamp_seconds{acme,github}": 1_800_000_060,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
