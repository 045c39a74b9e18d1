package secrets

import (
	"io"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// sourceSpec is the source of a secret whose hash is listed in the spec.
const sourceSpec = "spec"

// Provided is a client secret read from a Secret that the spec refers to.
type Provided struct {
	// Source identifies the version of that Secret. It is recorded so that an unchanged Secret is
	// hashed only once. It must not be empty or "spec".
	Source string
	// Value is the plaintext.
	Value string
	// Overlap is the time for which the old value remains valid after a change.
	Overlap time.Duration
}

// Recorded reports whether one of the given secrets was read from this version. If not, planning
// may require an Argon2id hash or verification.
func (w *Provided) Recorded(secrets []record.ClientSecret) bool {
	return slices.ContainsFunc(secrets, func(s record.ClientSecret) bool { return s.Source == w.Source })
}

// plan adopts the provided value. A new value is hashed. If only the Secret's version changed, the
// value is verified against the existing hash and the recorded version is updated. The previously
// active secret remains valid for the overlap.
func (w *Provided) plan(v View, now time.Time, random io.Reader) (Plan, error) {
	if newest := len(v.Valid) - 1; newest >= 0 && w.matches(v.Valid[newest]) {
		v.Valid[newest].Source = w.Source
		return Plan{Secrets: v.Valid, Continuous: true}, nil
	}
	secret, err := newSecret(w.Value, now, random)
	if err != nil {
		return Plan{}, err
	}
	secret.Source = w.Source
	p := Plan{Secrets: append(v.replaced(), secret)}
	p.retire(now, w.Overlap)
	return p, nil
}

// matches reports whether s was read from this version, or from a different version with the same
// value.
func (w *Provided) matches(s record.ClientSecret) bool {
	if s.Source == w.Source {
		return true
	}
	if s.Source == "" || s.Source == sourceSpec {
		return false
	}
	verifier, err := clientsecret.ParseVerifier(s.Hash)
	return err == nil && verifier.Verify(w.Value)
}

// replaced returns the secret that a provided one replaces, or nil. An external secret takes
// precedence, because a delivered secret has not replaced it yet.
func (v View) replaced() []record.ClientSecret {
	switch {
	case v.External >= 0:
		return []record.ClientSecret{v.Valid[v.External]}
	case v.Delivered >= 0:
		return []record.ClientSecret{v.Valid[v.Delivered]}
	}
	return nil
}

// planHashed plans exactly the hashes listed in the spec. Hashes that are already recorded keep
// their creation time.
func planHashed(hashes, recorded []record.ClientSecret, now time.Time) Plan {
	var p Plan
	for _, h := range hashes {
		s := record.ClientSecret{
			ID: h.ID, CreatedAt: now.UTC().Truncate(time.Second), ExpiresAt: h.ExpiresAt, Hash: h.Hash, Source: sourceSpec,
		}
		for _, known := range recorded {
			if known.Source == sourceSpec && known.ID == h.ID && known.Hash == h.Hash {
				s.CreatedAt, p.Continuous = known.CreatedAt, true
			}
		}
		p.Secrets = append(p.Secrets, s)
	}
	p.Secrets = valid(p.Secrets, now)
	return p
}
