package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// certificateMetrics are the metrics of the managed CA. They have no series if an instance has none.
type certificateMetrics struct {
	caExpiration      *prometheus.GaugeVec
	servingExpiration *prometheus.GaugeVec
}

func newCertificateMetrics(registerer prometheus.Registerer) certificateMetrics {
	m := certificateMetrics{
		caExpiration: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "realmkeeper_ca_expiration_timestamp_seconds",
			Help: "Expiration time of the managed CA that signs the serving certificate.",
		}, nil),
		servingExpiration: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "realmkeeper_serving_certificate_expiration_timestamp_seconds",
			Help: "Expiration time of the managed serving certificate.",
		}, nil),
	}
	registerer.MustRegister(m.caExpiration, m.servingExpiration)
	return m
}

// Certificates sets the expiration of the managed CA and of the serving certificate.
func (m *Metrics) Certificates(ca, serving time.Time) {
	m.certificates.caExpiration.WithLabelValues().Set(float64(ca.Unix()))
	m.certificates.servingExpiration.WithLabelValues().Set(float64(serving.Unix()))
}
