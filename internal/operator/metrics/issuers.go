package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// issuerMetrics are the metrics of fetching the keys of trusted issuers. Their labels are names from
// Realms.
type issuerMetrics struct {
	fetches     *prometheus.CounterVec
	lastSuccess *prometheus.GaugeVec
}

func newIssuerMetrics(registerer prometheus.Registerer) issuerMetrics {
	labels := []string{"realm", "issuer"}
	m := issuerMetrics{
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realmkeeper_issuer_fetches_total",
			Help: "Attempts to get the keys of a trusted issuer by outcome.",
		}, append(labels, "outcome")),
		lastSuccess: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "realmkeeper_issuer_last_success_timestamp_seconds",
			Help: "Time at which the operator last got the keys of a trusted issuer. Before its first success, the time since which it has tried.",
		}, labels),
	}
	registerer.MustRegister(m.fetches, m.lastSuccess)
	return m
}

// IssuerWanted starts the series of an issuer, so that an alert fires for one that never responds.
func (m *Metrics) IssuerWanted(realm, issuer string, now time.Time) {
	for _, outcome := range []Outcome{Success, Failure} {
		m.issuers.fetches.WithLabelValues(realm, issuer, string(outcome))
	}
	m.issuers.lastSuccess.WithLabelValues(realm, issuer).Set(float64(now.Unix()))
}

// IssuerFetched counts an attempt to get the keys of an issuer. A non-nil err counts as a failure.
func (m *Metrics) IssuerFetched(realm, issuer string, now time.Time, err error) {
	if err != nil {
		m.issuers.fetches.WithLabelValues(realm, issuer, string(Failure)).Inc()
		return
	}
	m.issuers.fetches.WithLabelValues(realm, issuer, string(Success)).Inc()
	m.issuers.lastSuccess.WithLabelValues(realm, issuer).Set(float64(now.Unix()))
}

// ForgetIssuer removes the series of an issuer that is no longer trusted.
func (m *Metrics) ForgetIssuer(realm, issuer string) {
	labels := prometheus.Labels{"realm": realm, "issuer": issuer}
	m.issuers.fetches.DeletePartialMatch(labels)
	m.issuers.lastSuccess.DeletePartialMatch(labels)
}
