package portal

import "github.com/prometheus/client_golang/prometheus"

// These are the outcomes of sign-ins in metrics.
const (
	signInAccepted  = "accepted"
	signInRejected  = "rejected"
	signInThrottled = "throttled"
	signInFailed    = "failed"
)

// metrics counts what the portal does.
type metrics struct {
	signIns *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) metrics {
	signIns := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "realmkeeper_portal_sign_ins_total",
		Help: `Sign-ins by outcome: "accepted", "rejected" because of the token or by the identity provider, "throttled" because too many from the same source failed, or "failed" because a server was unavailable or too many were in progress.`,
	}, []string{"outcome"})
	for _, outcome := range []string{signInAccepted, signInRejected, signInThrottled, signInFailed} {
		signIns.WithLabelValues(outcome) // so that the first one is an increase
	}
	registerer.MustRegister(signIns)
	return metrics{signIns: signIns}
}
