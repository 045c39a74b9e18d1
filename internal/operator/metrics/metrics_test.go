package metrics_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := metrics.New(registry, func() int { return 3 })
	at := time.Unix(1_800_000_000, 0)
	for _, realm := range []string{"acme", "disabled", "deleted"} {
		m.NextKeyRotation(realm, at)
	}
	m.NextKeyRotation("acme", at.Add(time.Hour))
	m.NextKeyRotation("disabled", time.Time{})
	m.ForgetRealm("deleted")
	m.ForgetRealm("unknown")
	m.Rotation(metrics.SigningKey, nil)
	m.Rotation(metrics.SigningKey, nil)
	m.Rotation(metrics.SigningKey, errors.New("write failed"))

	m.Rotation(metrics.ClientSecret, nil)
	m.GarbageCollected(metrics.Lease)()
	m.UsageReportRejected(metrics.Future)

	want := map[string]float64{
		"realmkeeper_rotations_total{client_secret,success}":          1,
		"realmkeeper_rotations_total{client_secret,failure}":          0,
		"realmkeeper_swept_total{record}":                             0,
		"realmkeeper_swept_total{consumer_secret}":                    0,
		"realmkeeper_swept_total{lease}":                              1,
		"realmkeeper_token_servers{}":                                 3,
		"realmkeeper_usage_reports_rejected_total{NotAServer}":        0,
		"realmkeeper_usage_reports_rejected_total{Damaged}":           0,
		"realmkeeper_usage_reports_rejected_total{Future}":            1,
		"realmkeeper_usage_reports_rejected_total{WrongClock}":        0,
		"realmkeeper_realm_next_key_rotation_timestamp_seconds{acme}": 1_800_003_600,
		"realmkeeper_rotations_total{signing_key,success}":            2,
		"realmkeeper_rotations_total{signing_key,failure}":            1,
	}
	testkit.Diff(t, "result", want, gather(t, registry))
}

// gather returns all values by metric name and label values. It also lints the metrics.
func gather(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families := testkit.Value(registry.Gather())(t)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("Lint: %v, %v", problems, err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			values := []string{labels["realm"] + labels["kind"] + labels["reason"]}
			for _, label := range []string{"issuer", "outcome"} {
				if value := labels[label]; value != "" {
					values = append(values, value)
				}
			}
			got[family.GetName()+"{"+strings.Join(values, ",")+"}"] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return got
}
