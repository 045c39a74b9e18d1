package install

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Metric returns the value of a metric of the server as text. name must include the labels, if any,
// exactly as they appear in /metrics.
func (s *TokenServer) Metric(t testing.TB, name string) string {
	t.Helper()
	return metric(s.Metrics(t), name)
}

// OperatorMetric returns the value of one of the operator's metrics. See TokenServer.Metric.
func (i *Installation) OperatorMetric(t testing.TB, name string) string {
	t.Helper()
	return metric(i.OperatorMetrics(t), name)
}

// Metrics returns the /metrics page of the server.
func (s *TokenServer) Metrics(t testing.TB) string {
	t.Helper()
	return metrics(t, s.Operations)
}

// OperatorMetrics returns the /metrics page of the operator.
func (i *Installation) OperatorMetrics(t testing.TB) string {
	t.Helper()
	return metrics(t, "http://"+i.metrics.Address())
}

func metric(all, name string) string {
	for line := range strings.Lines(all) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			return value
		}
	}
	return ""
}

// metrics retries because the program may still be starting.
func metrics(t testing.TB, base string) (all string) {
	t.Helper()
	Eventually(t, base+"/metrics", func() (err error) {
		all, err = scrape(t.Context(), base+"/metrics")
		return err
	})
	return all
}

func scrape(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Accept-Encoding", "identity") // compression costs more than the loopback interface
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
