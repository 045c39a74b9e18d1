package sealing

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// counts are numbers of keys in a record.
type counts struct{ plaintext, encrypted, outdated int }

// countKeys counts keys. An outdated key was encrypted with another key of the KMS than the current
// one.
func countKeys(keys []signingkey.Key, keyID string) (c counts) {
	for i := range keys {
		switch sealed := keys[i].Sealed(); {
		case sealed == nil:
			c.plaintext++
		case keyID != "" && sealed.KeyID != keyID:
			c.outdated++
		default:
			c.encrypted++
		}
	}
	return c
}

// RegisterMetrics registers the metrics about encrypted keys with registerer.
func (s *Sealer) RegisterMetrics(registerer prometheus.Registerer) {
	for encryption, of := range map[string]func(*state) int{
		"none":     func(r *state) int { return r.counts.plaintext },
		"kms":      func(r *state) int { return r.counts.encrypted },
		"outdated": func(r *state) int { return r.counts.outdated },
	} {
		registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "realmkeeper_signing_keys",
			Help:        `Signing keys in records by encryption: "none" for plaintext, "kms" if the current key of the KMS has encrypted them, "outdated" if another key of the KMS has.`,
			ConstLabels: prometheus.Labels{"encryption": encryption},
		}, func() float64 { return s.sum(of) }))
	}
	registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "realmkeeper_realms_waiting_for_kms",
		Help: "Realms that wait for the KMS plugin: for a new signing key, or to be encrypted or decrypted.",
	}, func() float64 {
		return s.sum(func(r *state) int {
			if r.request.Urgent() {
				return 1
			}
			return 0
		})
	}))
}

// sum returns the sum of a number over all realms.
func (s *Sealer) sum(of func(*state) int) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := 0
	s.each(func(_ string, r *state) { sum += of(r) })
	return float64(sum)
}
