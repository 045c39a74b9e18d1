package tokenserver

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// Metrics counts what the endpoints answer.
type Metrics struct {
	requests       *prometheus.CounterVec
	durations      *prometheus.HistogramVec
	realms         sync.Map // name → *realmMetrics, of realms that exist or did
	introspections *prometheus.CounterVec
	verifications  *prometheus.CounterVec
	slowChecks     *prometheus.CounterVec
}

// realmMetrics are what each token of a realm counts in, found once.
type realmMetrics struct {
	issued   prometheus.Counter
	duration prometheus.Observer
}

// resultIssued is the result of a token request that isn't refused.
const resultIssued = "issued"

// What introspection and verification come to where they aren't refused.
const (
	resultActive   = "active"
	resultInactive = "inactive"
	resultValid    = "valid"
)

// NewMetrics registers the metrics of a token server with registerer.
func NewMetrics(registerer prometheus.Registerer, reg *registry.Registry) *Metrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "realmkeeper_token_requests_total",
		Help: `Token requests by realm, empty where there is none of the name, and by result: "issued", or the OAuth 2.0 error code of the refusal, with its reason as the audit has it.`,
	}, []string{"realm", "result", "reason"})
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "realmkeeper_token_request_duration_seconds",
		Help: "How long it takes to decide about a token request of a realm, signature included: from its headers to its answer, without the time for which a refusal is held back.",
		// From a fast signature to RSA on a busy machine, and Argon2id.
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
	}, []string{"realm"})
	slowChecks := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "realmkeeper_slow_secret_checks_total",
		Help: `Checks of secrets that are hashed with Argon2id by what became of them: "remembered" as good, "verified", or "busy", which is answered with 503.`,
	}, []string{"outcome"})
	introspections := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "realmkeeper_introspections_total",
		Help: `Introspections by result: "active", "inactive", or the OAuth 2.0 error code of the refusal.`,
	}, []string{"result"})
	verifications := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "realmkeeper_verifications_total",
		Help: `Verifications for gateways by result: "valid", or the error code of the refusal.`,
	}, []string{"result"})
	registerer.MustRegister(requests, durations, slowChecks, introspections, verifications,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "realmkeeper_registry_realms",
			Help: "Realms that this server serves.",
		}, func() float64 { realms, _ := reg.Size(); return float64(realms) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "realmkeeper_registry_clients",
			Help: "Clients that this server serves.",
		}, func() float64 { _, clients := reg.Size(); return float64(clients) }),
	)
	return &Metrics{
		requests: requests, durations: durations,
		introspections: introspections, verifications: verifications, slowChecks: slowChecks,
	}
}

// RegisterAudit registers what there is to know of the audit.
func RegisterAudit(registerer prometheus.Registerer, log *audit.Log) {
	registerer.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "realmkeeper_audit_lost_total",
		Help: "Audit lines that could not be written, or not in time.",
	}, func() float64 { return float64(log.Lost()) }))
}

// of returns what a realm's tokens count in. Its labels hold names of realms alone, never
// what a request made up.
func (m *Metrics) of(realm *registry.Realm) *realmMetrics {
	found, ok := m.realms.Load(realm.Name)
	if !ok {
		found, _ = m.realms.LoadOrStore(realm.Name, &realmMetrics{
			issued:   m.requests.WithLabelValues(realm.Name, resultIssued, ""),
			duration: m.durations.WithLabelValues(realm.Name),
		})
	}
	of, _ := found.(*realmMetrics) // nothing else is stored there
	return of
}

// issued counts a request that got a token.
func (m *Metrics) issued(request *clientRequest) {
	of := m.of(request.realm)
	of.issued.Inc()
	of.duration.Observe(time.Since(request.started).Seconds())
}

// refused counts a request that was answered with an error, before the answer.
func (m *Metrics) refused(request *clientRequest, answer *oauth.Error, reason audit.Reason) {
	name := ""
	if request.realm != nil {
		name = request.realm.Name
		m.of(request.realm).duration.Observe(time.Since(request.started).Seconds())
	}
	m.requests.WithLabelValues(name, answer.Code, string(reason)).Inc()
}

func (m *Metrics) introspected(result string) { m.introspections.WithLabelValues(result).Inc() }

func (m *Metrics) verified(result string) { m.verifications.WithLabelValues(result).Inc() }
