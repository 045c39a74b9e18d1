package httpserver

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// operationsLimits bounds requests to the operations port, which only the cluster can reach.
var operationsLimits = Limits{
	Header: 10 * time.Second, Write: 10 * time.Second, Idle: 10 * time.Second,
	HeaderBytes: 64 << 10,
}

// operationsConnections limits connections to the operations port. Probes and Prometheus need a few.
const operationsConnections = 64

var errDraining = errors.New("the server is shutting down")

// ready returns the check behind /readyz. A draining server is not ready.
func (s *Server) ready(processReady func() error) func() error {
	return func() error {
		if s.draining.Load() {
			return errDraining
		}
		if processReady == nil {
			return nil
		}
		return processReady()
	}
}

// newOperations returns the handler of the operations port, which must never be public: /healthz
// for liveness, /readyz for readiness, and /metrics if there is a registry.
func newOperations(ready func() error, metrics *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	if metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	}
	return mux
}
