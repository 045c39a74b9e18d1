package secrets

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

// SourceSpec is the source of a secret whose hash is in the spec. The source of one whose hash is in a
// Secret that the spec lists is SourceSpec, a colon, and the version of that Secret.
const SourceSpec = "spec"

// isListed reports whether the spec lists the hash of a secret with the given source.
func isListed(source string) bool {
	return source == SourceSpec || strings.HasPrefix(source, SourceSpec+":")
}

// Provided is a client secret read from a Secret that the spec refers to.
type Provided struct {
	// Source identifies the version of that Secret. It is recorded so that an unchanged Secret is
	// hashed only once. It must not be empty or begin with "spec".
	Source string
	// Hash is the PHC string of the value; empty if the value is not hashed yet. It is the recorded
	// one if only the version of the Secret changed.
	Hash string
	// Overlap is the time for which the old value remains valid after a change.
	Overlap time.Duration
}

// planProvided adopts the provided value. If only the Secret's version changed, the recorded version is
// updated. The previous secret remains valid for the overlap. Until the value is hashed, the plan
// keeps the current secrets.
func (w *Provided) planProvided(recorded []record.ClientSecret, now time.Time) (Plan, error) {
	newest := len(recorded) - 1
	if newest >= 0 && w.matches(recorded[newest]) {
		recorded[newest].Source = w.Source
		return Plan{Secrets: retireOthers(recorded, recorded[newest], now, w.Overlap), KeepsSecret: true}, nil
	}
	if w.Hash == "" {
		return Plan{Secrets: recorded, KeepsSecret: true}, nil
	}
	verifier, err := clientsecret.ParseVerifier(w.Hash)
	if err != nil {
		return Plan{}, fmt.Errorf("using the hash of a provided secret: %w", err)
	}
	p := Plan{Secrets: []record.ClientSecret{}}
	added := record.ClientSecret{
		ID: verifier.ID(), CreatedAt: now.UTC().Truncate(time.Second), Hash: w.Hash, Source: w.Source, Role: record.RoleCurrent,
	}
	if replaced := replacedByProvided(recorded); replaced != nil {
		retire(replaced, now, w.Overlap)
		p.Secrets, p.Step, added.Successor = append(p.Secrets, *replaced), StepRetire, true
	}
	p.Secrets = Valid(append(p.Secrets, added), now)
	return p, nil
}

// matches reports whether s is current and was read from this version, or from a different version with
// the same value.
func (w *Provided) matches(s record.ClientSecret) bool {
	return IsProvided(s) && (s.Source == w.Source || s.Hash == w.Hash)
}

// IsProvided reports whether s is a provided secret that has not been replaced.
func IsProvided(s record.ClientSecret) bool {
	return s.Role == record.RoleCurrent && OfProvided(s.Source)
}

// OfProvided reports whether a source is that of a provided secret.
func OfProvided(source string) bool { return source != "" && !isListed(source) }

// replacedByProvided returns the secret that a provided one replaces, or nil: the provided or listed one
// that expires last, or else the current generated one.
func replacedByProvided(recorded []record.ClientSecret) *record.ClientSecret {
	var replaced *record.ClientSecret
	for i := range recorded {
		s := &recorded[i]
		switch {
		case s.Role != record.RoleCurrent:
		case replaced == nil, s.Source != "" && replaced.Source == "", (s.Source != "") == (replaced.Source != "") && expiresLater(*s, *replaced):
			replaced = s
		}
	}
	return replaced
}

// expiresLater reports whether a expires after b. a must be newer than b. If neither expires,
// expiresLater returns true.
func expiresLater(a, b record.ClientSecret) bool {
	return a.ExpiresAt.IsZero() || !b.ExpiresAt.IsZero() && b.ExpiresAt.Before(a.ExpiresAt)
}

// planHashed plans exactly the hashes listed in the spec. Hashes that are already recorded keep
// their creation time.
func planHashed(hashes, recorded []record.ClientSecret, now time.Time) Plan {
	var p Plan
	for _, h := range hashes {
		s := record.ClientSecret{
			ID: h.ID, CreatedAt: now.UTC().Truncate(time.Second), ExpiresAt: h.ExpiresAt, Hash: h.Hash, Source: cmp.Or(h.Source, SourceSpec), Role: record.RoleCurrent,
		}
		for _, known := range recorded {
			if isListed(known.Source) && known.ID == h.ID && known.Hash == h.Hash {
				s.CreatedAt = known.CreatedAt
			}
		}
		p.Secrets = append(p.Secrets, s)
	}
	p.Secrets = Valid(p.Secrets, now)
	return p
}
