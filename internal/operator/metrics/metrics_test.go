package metrics_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
)

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := metrics.New(registry)
	at := time.Unix(1_800_000_000, 0)
	for _, realm := range []string{"acme", "disabled", "deleted"} {
		m.NextKeyRotation(realm, at)
	}
	m.NextKeyRotation("acme", at.Add(time.Hour))
	m.NextKeyRotation("disabled", time.Time{})
	m.ForgetRealm("deleted")
	m.ForgetRealm("unknown")
	m.Rotation(metrics.SigningKey, nil)
	m.Rotation(metrics.SigningKey, errors.New("write failed"))
	m.UsageReportRejected(metrics.Future)

	families := testkit.Value(registry.Gather())(t)
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			names := []string{family.GetName()}
			for _, label := range metric.GetLabel() {
				names = append(names, label.GetValue())
			}
			key := strings.Join(names, " ")
			if value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue(); value != 0 {
				got[key] = value
			}
		}
	}
	want := map[string]float64{
		"realmkeeper_usage_reports_rejected_total Future":            1,
		"realmkeeper_realm_next_key_rotation_timestamp_seconds acme": 1_800_003_600,
		"realmkeeper_rotations_total signing_key success":            1,
		"realmkeeper_rotations_total signing_key failure":            1,
	}
	testkit.Diff(t, "result", want, got)
}
