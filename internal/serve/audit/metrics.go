package audit

import "github.com/prometheus/client_golang/prometheus"

// RegisterMetrics registers the metrics of the log.
func (l *Log) RegisterMetrics(registerer prometheus.Registerer) {
	registerer.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "realmkeeper_audit_lost_total",
			Help: "Audit events that could not be written, or not in time.",
		}, func() float64 { return float64(l.Lost()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "realmkeeper_audit_suppressed_total",
			Help: "Audit events about unknown clients, malformed requests and repeated failures that were not written because their source caused too many.",
		}, func() float64 { return float64(l.Suppressed()) }),
	)
}
