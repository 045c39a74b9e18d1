package secrets

import (
	"fmt"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// SourceSpec is the source of a secret whose hash is listed in the spec.
const SourceSpec = "spec"

// Provided is a client secret read from a Secret that the spec refers to.
type Provided struct {
	// Source identifies the version of that Secret. It is recorded so that an unchanged Secret is
	// hashed only once. It must not be empty or "spec".
	Source string
	// Hash is the PHC string of the value; empty if the value is not hashed yet. It is the recorded
	// one if only the version of the Secret changed.
	Hash string
	// Overlap is the time for which the old value remains valid after a change.
	Overlap time.Duration
}

// plan adopts the provided value. If only the Secret's version changed, the recorded version is
// updated. The previously active secret remains valid for the overlap. While the value is not
// hashed, the plan keeps the current secrets.
func (w *Provided) plan(v View, now time.Time) (Plan, error) {
	newest := len(v.Valid) - 1
	if newest >= 0 && w.matches(v.Valid[newest]) {
		v.Valid[newest].Source = w.Source
		return Plan{Secrets: v.Valid, Continuous: true}, nil
	}
	if w.Hash == "" && v.External >= 0 && w.matches(v.Valid[v.External]) {
		w = &Provided{Source: w.Source, Hash: v.Valid[v.External].Hash, Overlap: w.Overlap}
	}
	if w.Hash == "" {
		return Plan{Secrets: slices.Clip(append([]record.ClientSecret{}, v.Valid...)), Continuous: true}, nil
	}
	verifier, err := clientsecret.ParseVerifier(w.Hash)
	if err != nil {
		return Plan{}, fmt.Errorf("using the hash of a provided secret: %w", err)
	}
	p := Plan{Secrets: append(v.replaced(), record.ClientSecret{
		ID: verifier.ID(), CreatedAt: now.UTC().Truncate(time.Second), Hash: w.Hash, Source: w.Source,
	})}
	p.retire(now, w.Overlap)
	return p, nil
}

// matches reports whether s was read from this version, or from a different version with the same
// value.
func (w *Provided) matches(s record.ClientSecret) bool {
	return s.Source == w.Source || s.Hash == w.Hash && s.Source != "" && s.Source != SourceSpec
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
			ID: h.ID, CreatedAt: now.UTC().Truncate(time.Second), ExpiresAt: h.ExpiresAt, Hash: h.Hash, Source: SourceSpec,
		}
		for _, known := range recorded {
			if known.Source == SourceSpec && known.ID == h.ID && known.Hash == h.Hash {
				s.CreatedAt, p.Continuous = known.CreatedAt, true
			}
		}
		p.Secrets = append(p.Secrets, s)
	}
	p.Secrets = valid(p.Secrets, now)
	return p
}
