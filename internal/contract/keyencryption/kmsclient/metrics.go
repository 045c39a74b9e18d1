package kmsclient

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
)

// Metrics measures the requests to a KMS plugin.
type Metrics struct {
	requests *prometheus.HistogramVec
	// available has no value before the first request: a standby operator sends none.
	available *prometheus.GaugeVec
}

// NewMetrics registers the metrics with registerer.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "realmkeeper_kms_request_duration_seconds",
		Help:    "Duration of requests to the KMS plugin by operation (status, encrypt, decrypt) and gRPC status code. A code other than OK is a failure, which is retried.",
		Buckets: []float64{0.001, 0.005, 0.02, 0.1, 0.5, 2, 5},
	}, []string{"operation", "code"}), available: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "realmkeeper_kms_available",
		Help: "1 if the KMS plugin responded to the last request, and works according to its status, otherwise 0. Absent before the first request.",
	}, nil)}
	registerer.MustRegister(m.requests, m.available)
	return m
}

func (m *Metrics) observe(operation string, took time.Duration, code codes.Code) {
	if m != nil {
		m.requests.WithLabelValues(operation, code.String()).Observe(took.Seconds())
	}
}

func (m *Metrics) setAvailable(available bool) {
	switch {
	case m == nil:
	case available:
		m.available.WithLabelValues().Set(1)
	default:
		m.available.WithLabelValues().Set(0)
	}
}
