package target

import (
	"bufio"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Shed returns the counters of what the server has shed to stay within its limits, by metric with
// its labels. Counters with the value 0 are left out.
func (s *Server) Shed(t testing.TB) map[string]float64 {
	t.Helper()
	return s.metrics(t, func(name string) bool {
		for _, prefix := range []string{
			"realmkeeper_http_connections_closed_total", "realmkeeper_http_requests_rejected_total",
			"realmkeeper_slow_secret_checks_total", "realmkeeper_audit_",
		} {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
		return false
	})
}

// Metric returns the value of a metric, whose name includes the labels as /metrics shows them. It
// is 0 if the server has no such metric.
func (s *Server) Metric(t testing.TB, name string) float64 {
	t.Helper()
	return s.metrics(t, func(other string) bool { return other == name })[name]
}

func (s *Server) metrics(t testing.TB, wanted func(name string) bool) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	response, err := s.operation(t.Context(), "/metrics")
	if err != nil {
		t.Errorf("Failed to read the metrics of %s: %v", s.Name, err)
		return values
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if !wanted(name) {
			continue
		}
		if value, err := strconv.ParseFloat(text, 64); err == nil && value != 0 {
			values[name] = value
		}
	}
	return values
}

// Describe returns by how much counters have grown, as text for a report, sorted and without the
// common prefix.
func Describe(before, now map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if now[name] == before[name] {
			continue
		}
		short := strings.NewReplacer("realmkeeper_", "", "_total", "", "{outcome=", " ", "{reason=", " ", "}", "", `"`, "", "_", " ").Replace(name)
		parts = append(parts, short+" "+strconv.FormatFloat(now[name]-before[name], 'f', -1, 64))
	}
	return strings.Join(parts, ", ")
}
