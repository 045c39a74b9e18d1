// Package metrics defines the operator's own metrics, in addition to those of
// controller-runtime: rotations, upcoming rotations, the keys of trusted issuers, certificates,
// and ApiClients.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// RotationKind is the kind of credential that a rotation replaces.
type RotationKind string

const (
	// SigningKey is a realm's signing key.
	SigningKey RotationKind = "signing_key"
	// ClientSecret is a client secret, generated or provided.
	ClientSecret RotationKind = "client_secret"
)

// Outcome is the result of a rotation.
type Outcome string

const (
	// Success means that the new key or secret is active.
	Success Outcome = "success"
	// Failure means that the rotation failed. The operator retries it.
	Failure Outcome = "failure"
)

// Metrics holds the operator's metrics. It is safe for concurrent use.
type Metrics struct {
	rotations       *prometheus.CounterVec
	nextKeyRotation *prometheus.GaugeVec
	signingKeys     *prometheus.GaugeVec
	issuers         issuerMetrics
	certificates    certificateMetrics
	rejectedReports *prometheus.CounterVec
}

// New registers the metrics with registerer.
func New(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		rotations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realmkeeper_rotations_total",
			Help: `Rotations by kind and outcome. A rotation with the outcome "failure" is retried.`,
		}, []string{"kind", "outcome"}),
		nextKeyRotation: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "realmkeeper_realm_next_key_rotation_timestamp_seconds",
			Help: "Time of the realm's next signing key rotation. A time more than an hour ago means that the rotation is stuck; check the status of the Realm.",
		}, []string{"realm"}),
		signingKeys: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "realmkeeper_signing_keys",
			Help: `Signing keys of a realm with a private part, by encryption: "none" for plaintext, or "kms" with the ID of the key of the KMS that encrypted them.`,
		}, []string{"realm", "encryption", "kms_key_id"}),
	}
	m.rejectedReports = newRejectedReports(registerer)
	m.issuers = newIssuerMetrics(registerer)
	m.certificates = newCertificateMetrics(registerer)
	registerer.MustRegister(m.rotations, m.nextKeyRotation, m.signingKeys)
	// Initialize all series so that rates include the first increment.
	for _, kind := range []RotationKind{SigningKey, ClientSecret} {
		for _, outcome := range []Outcome{Success, Failure} {
			m.rotations.WithLabelValues(string(kind), string(outcome))
		}
	}
	return m
}

// Rotation counts a rotation. A non-nil err counts as a failure.
func (m *Metrics) Rotation(kind RotationKind, err error) {
	outcome := Success
	if err != nil {
		outcome = Failure
	}
	m.rotations.WithLabelValues(string(kind), string(outcome)).Inc()
}

// NextKeyRotation sets the time at which the next key of a realm becomes active. Zero means that
// the time is unknown and removes the series.
func (m *Metrics) NextKeyRotation(realm string, at time.Time) {
	if at.IsZero() {
		m.nextKeyRotation.DeleteLabelValues(realm)
		return
	}
	m.nextKeyRotation.WithLabelValues(realm).Set(float64(at.Unix()))
}

// SigningKeys sets how the private parts of a realm's keys are stored: how many are in plaintext, and how
// many each key of the KMS has encrypted, by its ID.
func (m *Metrics) SigningKeys(realm string, plaintext int, encrypted map[string]int) {
	m.signingKeys.DeletePartialMatch(prometheus.Labels{"realm": realm})
	if plaintext > 0 {
		m.signingKeys.WithLabelValues(realm, "none", "").Set(float64(plaintext))
	}
	for keyID, count := range encrypted {
		m.signingKeys.WithLabelValues(realm, "kms", keyID).Set(float64(count))
	}
}

// ForgetRealm removes the series of a deleted realm.
func (m *Metrics) ForgetRealm(realm string) {
	m.nextKeyRotation.DeleteLabelValues(realm)
	m.signingKeys.DeletePartialMatch(prometheus.Labels{"realm": realm})
}
