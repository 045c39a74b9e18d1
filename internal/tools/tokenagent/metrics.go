package tokenagent

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Metrics are those of an Agent. It serves them in the text format of Prometheus, without its library, with which the
// agent in each Pod needs more than 12 MiB of memory. The zero value is ready to use.
type Metrics struct {
	mu       sync.Mutex
	failures map[string]int // by code
	expires  time.Time      // zero without a token
}

// ServeHTTP implements http.Handler.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	fmt.Fprintf(w, `# HELP realmkeeper_token_agent_expires_in_seconds Time until the token in the file expires; 0 without a token.
# TYPE realmkeeper_token_agent_expires_in_seconds gauge
realmkeeper_token_agent_expires_in_seconds %.3f
# HELP realmkeeper_token_agent_failures_total Failed attempts to renew the token, by error code.
# TYPE realmkeeper_token_agent_failures_total counter
`, max(0, time.Until(m.expires).Seconds()))
	for _, code := range slices.Sorted(maps.Keys(m.failures)) {
		fmt.Fprintf(w, "realmkeeper_token_agent_failures_total{code=%q} %d\n", code, m.failures[code])
	}
}

func (m *Metrics) setExpiry(expires time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expires = expires.Round(0) // Monotonic time stands still while the machine is suspended.
}

func (m *Metrics) countFailure(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failures == nil {
		m.failures = map[string]int{}
	}
	m.failures[codeOf(err)]++
}
