// Package metrics owns what the operator measures of its own work, beside what
// controller-runtime does: rotations, what is due, and what is cleaned up.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// RotationKind is what a rotation replaces.
type RotationKind string

const (
	// SigningKey is the key that a realm signs with.
	SigningKey RotationKind = "signing_key"
	// ClientSecret is a secret that the operator made for a client.
	ClientSecret RotationKind = "client_secret"
)

// Outcome says how a rotation ended.
type Outcome string

const (
	// Success means that the successor is in force.
	Success Outcome = "success"
	// Failure means that it could not be written, and is tried again.
	Failure Outcome = "failure"
)

// CollectedKind is what the operator removes because nothing needs it any more.
type CollectedKind string

const (
	// Record is the record of an object that is gone.
	Record CollectedKind = "record"
	// CredentialsSecret is a Secret that the operator made and whose content is no longer valid.
	CredentialsSecret CollectedKind = "consumer_secret"
	// Lease is the heartbeat of a token server that fell silent.
	Lease CollectedKind = "lease"
)

// Metrics are the operator's. It is safe for concurrent use.
type Metrics struct {
	rotations   *prometheus.CounterVec
	nextKeyTurn *prometheus.GaugeVec
	swept       *prometheus.CounterVec
}

// New registers the metrics with registerer.
func New(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		rotations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realmkeeper_rotations_total",
			Help: `Rotations by what was replaced and by outcome: "success", or "failure", which is tried again.`,
		}, []string{"kind", "outcome"}),
		nextKeyTurn: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "realmkeeper_realm_next_key_rotation_timestamp_seconds",
			Help: "When the realm's next signing key begins to sign. Long past: the rotation is stuck, and the status of the Realm says why.",
		}, []string{"realm"}),
		swept: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realmkeeper_swept_total",
			Help: "What was removed because nothing needs it any more, by kind: records of objects that are gone, consumer Secrets without need, and Leases of silent token servers.",
		}, []string{"kind"}),
	}
	registerer.MustRegister(m.rotations, m.nextKeyTurn, m.swept)
	// So that a rate is known from the first one on.
	for _, what := range []RotationKind{SigningKey, ClientSecret} {
		for _, outcome := range []Outcome{Success, Failure} {
			m.rotations.WithLabelValues(string(what), string(outcome))
		}
	}
	for _, what := range []CollectedKind{Record, CredentialsSecret, Lease} {
		m.swept.WithLabelValues(string(what))
	}
	return m
}

// CollectedKind returns a function that counts one thing of that kind that was removed.
func (m *Metrics) GarbageCollected(what CollectedKind) func() {
	return m.swept.WithLabelValues(string(what)).Inc
}

// Rotation counts a rotation that has ended, well or with err.
func (m *Metrics) Rotation(what RotationKind, err error) {
	outcome := Success
	if err != nil {
		outcome = Failure
	}
	m.rotations.WithLabelValues(string(what), string(outcome)).Inc()
}

// NextKeyRotation notes when the next key of a realm begins to sign; zero: that can't be said.
func (m *Metrics) NextKeyRotation(realm string, at time.Time) {
	if at.IsZero() {
		m.ForgetRealm(realm)
		return
	}
	m.nextKeyTurn.WithLabelValues(realm).Set(float64(at.Unix()))
}

// ForgetRealm ends what is told of a realm that is gone.
func (m *Metrics) ForgetRealm(realm string) {
	m.nextKeyTurn.DeleteLabelValues(realm)
}
