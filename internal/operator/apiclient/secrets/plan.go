// Package secrets plans the lifecycle of a client's secrets. The plan is a pure function of the
// observed facts, the time, and the random source.
//
// The operator replaces a generated secret in steps. Each step is one write. After a crash between
// two steps, the next plan continues from the observed facts:
//
//  1. Generate a secret in memory and record its verifier alongside the active one (Announced).
//  2. When every live token server has acknowledged the record, deliver the secret. A crash
//     before that loses it (Lost). The operator then generates a new secret, and the old one
//     remains valid.
//  3. Let the old secret expire after the overlap, counted from this step (Overlapping). A
//     schedule can end it earlier, when it has not been used for some time.
//  4. Remove it after it has expired (Settled). Token servers check the expiration themselves.
//
// No rotation begins while two secrets are valid, so a secret that workloads may still use never
// expires early. The same steps apply when a generated secret replaces a provided secret or a hash
// listed in the spec.
package secrets

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// Want describes the secret that the spec requests. At most one field is set. If none is set, the
// client has no secret.
type Want struct {
	Generated *Schedule
	Provided  *Provided
	// Hashed are the hashes listed in the spec. Only ID, Hash, and ExpiresAt are used.
	Hashed []record.ClientSecret
}

// Plan is the desired state of a client's secrets.
type Plan struct {
	// Secrets are the desired secrets in the record, oldest first. They are never nil.
	Secrets []record.ClientSecret
	// Restored are the secrets of a backup that are accepted in addition to Secrets.
	Restored []record.ClientSecret
	// Deliver is the desired secret in the credentials Secret. If empty, the Secret is unchanged.
	Deliver string
	// Pending is the plaintext of the newest secret. The caller must keep it until it is delivered.
	Pending string
	// Continuous reports whether workloads have a valid secret before and after the change.
	Continuous bool
	// Step is the rotation step that the plan takes; empty if there is none.
	Step Step
	// Next is the time at which the next rotation begins; zero if none is planned or one is in
	// progress.
	Next time.Time
	// Check is the time at which an old secret may end because it is unused; zero if there is no such
	// secret. If the uses of the secret are not known, Check is the time of the plan.
	Check time.Time
}

// Step is a rotation step that is counted in metrics.
type Step string

// Steps of a rotation.
const (
	// StepBegun means that a new secret has been generated and the token servers must load it.
	StepBegun Step = "begun"
	// StepLost means that the new secret was lost before delivery.
	StepLost Step = "lost"
	// StepCompleted means that the new secret is active and the old one expires.
	StepCompleted Step = "completed"
)

// Make plans a client's secrets. Make is idempotent: feeding a plan's secrets and pending plaintext
// back in yields the same plan.
//
// Errors come from the random source.
func Make(f Facts, w Want, now time.Time, random io.Reader) (Plan, error) {
	if w.Generated != nil {
		f.adoptDelivered(now)
	}
	p, err := f.plan(w, now, random)
	if err != nil {
		return Plan{}, err
	}
	p.Restored = f.accepted(w, p.Secrets, now)
	return p, nil
}

func (f *Facts) plan(w Want, now time.Time, random io.Reader) (Plan, error) {
	switch {
	case w.Provided != nil:
		return w.Provided.plan(Look(*f, now), now)
	case len(w.Hashed) > 0:
		return planHashed(w.Hashed, f.Recorded, now), nil
	case w.Generated != nil:
		return w.Generated.plan(*f, Look(*f, now), now, random)
	}
	// Previous secrets expire immediately, like hashes that are removed from the spec.
	return Plan{Secrets: []record.ClientSecret{}}, nil
}

// Obsolete reports whether a credentials Secret with the given values contains none of the plan's
// generated secrets.
func (p Plan) Obsolete(values []string) bool {
	generated := slices.DeleteFunc(slices.Clone(p.Secrets), func(s record.ClientSecret) bool { return s.Source != "" })
	_, index := delivered(values, generated)
	return index < 0
}

// retire makes the secrets that the newest one replaces expire at the end of the overlap.
func (p *Plan) retire(now time.Time, overlap time.Duration) {
	newest := len(p.Secrets) - 1
	for i := range p.Secrets[:newest] {
		s := &p.Secrets[i]
		if !s.ExpiresAt.IsZero() && s.Source == "" {
			continue
		}
		if end := expiration(now, overlap); s.ExpiresAt.IsZero() || end.Before(s.ExpiresAt) {
			s.ExpiresAt = end
		}
		s.Source = ""
		p.Secrets[newest].Successor = true
		p.Step = StepCompleted
	}
	p.Secrets = valid(p.Secrets, now)
}

// expiration returns the end of an overlap that begins now, rounded up to a whole second. Without
// an overlap, it returns now.
func expiration(now time.Time, overlap time.Duration) time.Time {
	if overlap <= 0 {
		return now.UTC()
	}
	return roundUp(now.Add(overlap))
}

// roundUp rounds up to a whole second.
func roundUp(at time.Time) time.Time { return at.UTC().Add(time.Second - 1).Truncate(time.Second) }

// newSecret hashes a generated secret for the record.
func newSecret(plaintext string, now time.Time, random io.Reader) (record.ClientSecret, error) {
	verifier, err := clientsecret.Hash(plaintext, random)
	if err != nil {
		return record.ClientSecret{}, fmt.Errorf("hashing a client secret: %w", err)
	}
	return record.ClientSecret{
		ID:        verifier.ID(),
		CreatedAt: now.UTC().Truncate(time.Second),
		Hash:      verifier.String(),
	}, nil
}
