package observers_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// noProblems are the metrics of an idle installation. Each has a value per minute for ten minutes.
var noProblems = map[string][]float64{
	`realmkeeper_registry_realms{pod="a"}`:                                     constant(1),
	`realmkeeper_registry_unreadable_records{pod="a"}`:                         constant(0),
	`realmkeeper_kms_available{pod="a"}`:                                       constant(1),
	`realmkeeper_realms_without_signing_key{pod="a"}`:                          constant(0),
	`realmkeeper_plaintext_signing_keys{pod="a"}`:                              constant(0),
	`realmkeeper_snapshot_errors_total{pod="a"}`:                               constant(3),
	`realmkeeper_records_staleness_seconds{pod="a"}`:                           constant(0),
	`realmkeeper_audit_lost_total{pod="a"}`:                                    constant(7),
	`realmkeeper_audit_suppressed_total{pod="a"}`:                              increasing(1000),
	`realmkeeper_slow_secret_checks_total{pod="a",outcome="busy"}`:             constant(2),
	`realmkeeper_slow_secret_checks_total{pod="a",outcome="verified"}`:         increasing(60),
	`realmkeeper_http_connections{pod="a"}`:                                    constant(100),
	`realmkeeper_http_connections_limit{pod="a"}`:                              constant(512),
	`realmkeeper_http_connections_closed_total{pod="a",reason="idle"}`:         increasing(10),
	`realmkeeper_http_connections_closed_total{pod="a",reason="limit"}`:        constant(5),
	`realmkeeper_http_connections_closed_total{pod="a",reason="source"}`:       constant(5),
	`realmkeeper_http_requests_rejected_total{pod="a",reason="busy"}`:          constant(5),
	`realmkeeper_portal_sign_ins_total{pod="p",outcome="accepted"}`:            increasing(2),
	`realmkeeper_portal_sign_ins_total{pod="p",outcome="throttled"}`:           constant(1),
	`realmkeeper_rotations_total{kind="signing_key",outcome="failure"}`:        constant(1),
	`realmkeeper_issuer_fetches_total{issuer="github",outcome="failure"}`:      constant(1),
	`realmkeeper_usage_reports_rejected_total{reason="Damaged"}`:               constant(1),
	`leader_election_master_status{name="realmkeeper-operator"}`:               constant(1),
	`realmkeeper_clients{pod="o",realm="acme",state="Ready"}`:                  constant(9),
	`realmkeeper_clients{pod="o",realm="acme",state="Suspended"}`:              constant(1),
	`realmkeeper_clients{pod="o",realm="acme",state="Expired"}`:                constant(1),
	`realmkeeper_clients{pod="o",realm="acme",state="RealmSuspended"}`:         constant(1),
	`controller_runtime_reconcile_errors_total{controller="apiclient"}`:        constant(1),
	`realmkeeper_http_requests_rejected_total{pod="a",reason="displaced"}`:     constant(0),
	`realmkeeper_http_connections_closed_total{pod="p",reason="proxy_header"}`: constant(0),
}

const minutes = 10

func constant(value float64) []float64 { return slices.Repeat([]float64{value}, minutes) }

func increasing(perMinute float64) (values []float64) {
	for i := range minutes {
		values = append(values, perMinute*float64(i))
	}
	return values
}

// Each alert fires only for its problem, and the guide says what to do about it.
func TestAlertsFire(t *testing.T) {
	at := time.Now().Truncate(time.Second)
	ago := func(d time.Duration) []float64 { return constant(float64(at.Add(-d).Unix())) }
	problems := map[string]map[string][]float64{
		"NoTokenServer":           {`realmkeeper_registry_realms{pod="a"}`: nil},
		"TokenServerCutOff":       {`realmkeeper_heartbeat_last_success_timestamp_seconds{pod="a"}`: ago(2 * time.Minute)},
		"RecordUnreadable":        {`realmkeeper_registry_unreadable_records{pod="a"}`: constant(1)},
		"LastGoodRecordsNotKept":  {`realmkeeper_snapshot_errors_total{pod="a"}`: increasing(1)},
		"KeyRotationStuck":        {`realmkeeper_realm_next_key_rotation_timestamp_seconds{realm="acme"}`: ago(2 * time.Hour)},
		"ClockSkew":               {`realmkeeper_clock_skew_seconds{pod="a"}`: constant(-90)},
		"KMSUnavailable":          {`realmkeeper_kms_available{pod="a"}`: constant(0)},
		"RealmsWithoutSigningKey": {`realmkeeper_realms_without_signing_key{pod="a"}`: constant(2)},
		"SigningKeysInPlaintext":  {`realmkeeper_plaintext_signing_keys{pod="a"}`: constant(1)},
		"IssuerNotResolved":       {`realmkeeper_issuer_last_success_timestamp_seconds{realm="acme",issuer="github"}`: ago(2 * time.Hour)},
		"UsageReportsRejected":    {`realmkeeper_usage_reports_rejected_total{reason="Damaged"}`: increasing(1)},
		"RotationFails":           {`realmkeeper_rotations_total{kind="signing_key",outcome="failure"}`: increasing(1)},
		"ClientsNotReady":         {`realmkeeper_clients{pod="o",realm="acme",state="SecretConflict"}`: constant(2)},
		"NoLeader":                {`leader_election_master_status{name="realmkeeper-operator"}`: constant(0)},
		"ReconcileErrors":         {`controller_runtime_reconcile_errors_total{controller="apiclient"}`: increasing(1)},
		"RecordsStale":            {`realmkeeper_records_staleness_seconds{pod="a"}`: constant(301)},
		"ConnectionsRefused":      {`realmkeeper_http_connections_closed_total{pod="a",reason="source"}`: increasing(60)},
		"ConnectionsNearLimit":    {`realmkeeper_http_connections{pod="a"}`: constant(420)},
		"RequestsRejected":        {`realmkeeper_http_requests_rejected_total{pod="a",reason="displaced"}`: increasing(1)},
		"ProxyHeaderMissing":      {`realmkeeper_http_connections_closed_total{pod="p",reason="proxy_header"}`: increasing(6)},
		"AuditEventsLost":         {`realmkeeper_audit_lost_total{pod="a"}`: increasing(1)},
		"SlowSecretChecksBusy":    {`realmkeeper_slow_secret_checks_total{pod="a",outcome="busy"}`: increasing(1)},
		"SignInsThrottled":        {`realmkeeper_portal_sign_ins_total{pod="p",outcome="throttled"}`: increasing(1)},
		"CertificateExpires":      {`realmkeeper_serving_certificate_expiration_timestamp_seconds`: ago(-6 * 24 * time.Hour)},
	}
	alerts := alertsByName(t)
	checkDocumented(t, alerts)
	var queries []string
	for name, query := range alerts {
		if problems[name] == nil {
			t.Errorf("no test fires the alert %s", name)
		}
		queries = append(queries, query)
	}
	noProblems[`realmkeeper_serving_certificate_expiration_timestamp_seconds`] = ago(-29 * 24 * time.Hour) // just before its renewal
	metrics, names := [][]scrape{scrapesOf(nil, at)}, slices.Sorted(maps.Keys(problems))
	for _, name := range names {
		metrics = append(metrics, scrapesOf(problems[name], at))
	}
	for i, results := range evaluate(t, queries, at, metrics...) {
		var firing []string
		for name, query := range alerts {
			if result := results[query]; result.Error != "" {
				t.Fatalf("alert %s: %s", name, result.Error)
			} else if len(result.Series) > 0 {
				firing = append(firing, name)
			}
		}
		switch {
		case i == 0 && len(firing) > 0:
			t.Errorf("alerts fire without a problem: %v", firing)
		case i > 0 && !slices.Equal(firing, names[i-1:i]):
			t.Errorf("problem %s fires the alerts %v, want only its own", names[i-1], firing)
		}
	}
}

// scrapesOf returns ten minutes of the noProblems metrics with the changes of a problem. A metric
// without values is missing.
func scrapesOf(problem map[string][]float64, at time.Time) (scrapes []scrape) {
	for i := range minutes {
		var text strings.Builder
		add := func(series string, values []float64) {
			if len(values) > 0 {
				fmt.Fprintf(&text, "%s %g\n", series, values[i])
			}
		}
		for series, values := range noProblems {
			if _, ok := problem[series]; !ok {
				add(series, values)
			}
		}
		for series, values := range problem {
			add(series, values)
		}
		scrapes = append(scrapes, scrape{At: at.Add(time.Duration(i-minutes+1) * time.Minute), Labels: map[string]string{"job": "test"}, Text: text.String()})
	}
	return scrapes
}

// alertsByName returns the queries of the chart's alerts by name, without the prefix Realmkeeper.
func alertsByName(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(charts, "templates", "monitoring", "prometheus_rule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`alert: Realmkeeper(\w+)`).FindAllSubmatch(text, -1)
	queries := alertQueries(t)
	if len(names) != len(queries) {
		t.Fatalf("the chart has %d alerts and %d queries", len(names), len(queries))
	}
	alerts := map[string]string{}
	for i, name := range names {
		alerts[string(name[1])] = queries[i]
	}
	return alerts
}

// checkDocumented checks that the guide has a row for each alert and for nothing else.
func checkDocumented(t *testing.T, alerts map[string]string) {
	t.Helper()
	guide, err := os.ReadFile("../../../docs/operations/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `Realmkeeper(\\w+)` \\|").FindAllSubmatch(guide, -1)
	if len(rows) != len(alerts) {
		t.Errorf("docs/operations/monitoring.md documents %d alerts, the chart has %d", len(rows), len(alerts))
	}
	for _, row := range rows {
		if alerts[string(row[1])] == "" {
			t.Errorf("docs/operations/monitoring.md documents the alert Realmkeeper%s, which the chart doesn't have", row[1])
		}
	}
}
