package metrics

import "github.com/prometheus/client_golang/prometheus"

// RejectionReason is the reason why a report of used credentials is rejected.
type RejectionReason string

const (
	// NotAServer means that the ConfigMap doesn't have the name of a token server's report.
	NotAServer RejectionReason = "NotAServer"
	// Damaged means that the report can't be read, or belongs to another token server.
	Damaged RejectionReason = "Damaged"
	// Future means that the report contains a time in the future.
	Future RejectionReason = "Future"
	// WrongClock means that the clock of a token server is wrong according to its heartbeat.
	WrongClock RejectionReason = "WrongClock"
)

func newRejectedReports(registerer prometheus.Registerer) *prometheus.CounterVec {
	rejected := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "realmkeeper_usage_reports_rejected_total",
		Help: "Rejected reports of used credentials by reason. All credentials count as used until then. The operator's log names the report.",
	}, []string{"reason"})
	registerer.MustRegister(rejected)
	for _, reason := range []RejectionReason{NotAServer, Damaged, Future, WrongClock} {
		rejected.WithLabelValues(string(reason))
	}
	return rejected
}

// UsageReportRejected counts a rejected report of used credentials.
func (m *Metrics) UsageReportRejected(reason RejectionReason) {
	m.rejectedReports.WithLabelValues(string(reason)).Inc()
}
