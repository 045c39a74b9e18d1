package tokenserver

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// Metrics counts requests by result.
type Metrics struct {
	requests       *prometheus.CounterVec
	durations      *prometheus.HistogramVec
	realms         sync.Map // realm name → *realmMetrics
	introspections *prometheus.CounterVec
	verifications  *prometheus.CounterVec
	slowChecks     *prometheus.CounterVec
	proofs         *prometheus.CounterVec
	assertions     *prometheus.CounterVec
	exchanges      *prometheus.CounterVec
}

// realmMetrics contains the metrics for a realm's issued tokens, so that requests don't have to
// look them up.
type realmMetrics struct {
	issued   prometheus.Counter
	duration prometheus.Observer
}

// These are the result labels for successful requests.
const (
	resultIssued   = "issued"
	resultActive   = "active"
	resultInactive = "inactive"
	// resultNotAllowed is for valid tokens that the client may not introspect.
	resultNotAllowed = "not_allowed"
	resultValid      = "valid"
)

// These are the other result labels for DPoP proofs.
const (
	resultInvalid  = "invalid"
	resultReplayed = "replayed"
	resultMissing  = "missing"
	resultFull     = "full"
)

// These are the endpoint labels for DPoP proofs.
const (
	endpointToken  = "token"
	endpointVerify = "verify"
)

// NewMetrics registers the token server's metrics.
func NewMetrics(registerer prometheus.Registerer, reg *registry.Registry) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realmkeeper_token_requests_total",
			Help: `Token requests by realm, result and reason. The realm is empty if it does not exist. The result is "issued" or the OAuth 2.0 error code. The reason is the same as in the audit log.`,
		}, []string{"realm", "result", "reason"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "realmkeeper_token_request_duration_seconds",
			Help: "Time to process a token request by realm, including the signature but not the delay of rejected requests.",
			// The buckets cover fast signatures, RSA on a busy machine, and slow hashes.
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}, []string{"realm"}),
		slowChecks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realmkeeper_slow_secret_checks_total",
			Help: `Checks of slowly hashed secrets by outcome: "remembered" if the secret was known to be correct, "rejected" if it was known to be wrong, "verified" if a slow hash was computed, or "busy" if the response was 503.`,
		}, []string{"outcome"}),
		introspections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realmkeeper_introspections_total",
			Help: `Introspection requests by result: "active", "inactive", "not_allowed" if the client may not introspect the token, or the OAuth 2.0 error code.`,
		}, []string{"result"}),
		verifications: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realmkeeper_verifications_total",
			Help: `Verification requests from gateways by result: "valid", or the OAuth 2.0 error code.`,
		}, []string{"result"}),
		proofs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realmkeeper_dpop_proofs_total",
			Help: `DPoP proofs by endpoint ("token" or "verify") and result: "valid", "invalid", "replayed", "missing" if the request needs one, or "full" if the response was 503.`,
		}, []string{"endpoint", "result"}),
		assertions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realmkeeper_assertions_total",
			Help: `JWTs that clients presented to authenticate or as a grant, by realm, issuer and result. The issuer is the name of a trusted issuer, "kubernetes" for service accounts of the cluster, "self" if the client signed it, or empty if it states none of them. The result is "accepted", the reason in the audit log, or an OAuth 2.0 error code.`,
		}, []string{"realm", "issuer", "result"}),
		exchanges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realmkeeper_exchanges_total",
			Help: `Token exchanges and ID-JAGs of authenticated clients by realm, rule and result. The rule is empty unless the result is "issued". The result is "issued", the reason in the audit log, or an OAuth 2.0 error code.`,
		}, []string{"realm", "rule", "result"}),
	}
	registerer.MustRegister(m.requests, m.durations, m.proofs, m.slowChecks, m.assertions, m.exchanges, m.introspections, m.verifications,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "realmkeeper_registry_realms",
			Help: "Realms that this token server serves.",
		}, func() float64 { realms, _ := reg.Size(); return float64(realms) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "realmkeeper_registry_clients",
			Help: "Clients that this token server serves.",
		}, func() float64 { _, clients := reg.Size(); return float64(clients) }),
	)
	return m
}

// of returns the metrics of a realm. Only the names of existing realms become labels, never text
// from a request.
func (m *Metrics) of(realm *registry.Realm) *realmMetrics {
	found, ok := m.realms.Load(realm.Name)
	if !ok {
		found, _ = m.realms.LoadOrStore(realm.Name, &realmMetrics{
			issued:   m.requests.WithLabelValues(realm.Name, resultIssued, ""),
			duration: m.durations.WithLabelValues(realm.Name),
		})
	}
	of, _ := found.(*realmMetrics) // the map contains nothing else
	return of
}

// issued counts a request that was granted a token.
func (m *Metrics) issued(request *clientRequest) {
	of := m.of(request.realm)
	of.issued.Inc()
	of.duration.Observe(time.Since(request.started).Seconds())
	if request.exchanges() {
		m.exchanges.WithLabelValues(request.realm.Name, request.rule, resultIssued).Inc()
	}
}

// rejected counts a request that gets an error response. Call it before delaying the response, so
// that the delay isn't included in the duration.
func (m *Metrics) rejected(request *clientRequest, response *oauth.Error, reason audit.Reason) {
	name := ""
	if request.realm != nil {
		name = request.realm.Name
		m.of(request.realm).duration.Observe(time.Since(request.started).Seconds())
	}
	m.requests.WithLabelValues(name, response.Code, string(reason)).Inc()
	if request.exchanges() {
		m.exchanges.WithLabelValues(name, "", string(reason)).Inc()
	}
}

func (m *Metrics) introspected(result string) { m.introspections.WithLabelValues(result).Inc() }

func (m *Metrics) verified(result string) { m.verifications.WithLabelValues(result).Inc() }

func (m *Metrics) proved(endpoint, result string) {
	m.proofs.WithLabelValues(endpoint, result).Inc()
}

// asserted counts an assertion; see clientauth.Options.
func (m *Metrics) asserted(realm, issuer, result string) {
	m.assertions.WithLabelValues(realm, issuer, result).Inc()
}
