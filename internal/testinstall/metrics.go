package testinstall

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Metric returns the value of a metric of the server, as it stands in /metrics: of one
// without labels, or with its labels as they stand there.
func (s *TokenServer) Metric(t testing.TB, name string) string {
	t.Helper()
	return metric(t, s.Operations, name)
}

// OperatorMetric returns the value of a metric of the operator, as TokenServer.Metric does.
func (i *Installation) OperatorMetric(t testing.TB, name string) string {
	t.Helper()
	return metric(t, "http://"+i.metrics.Address(), name)
}

func metric(t testing.TB, base, name string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			return value
		}
	}
	return ""
}
