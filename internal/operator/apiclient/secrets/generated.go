package secrets

import (
	"io"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// Schedule defines when a generated secret is replaced.
type Schedule struct {
	// Interval is the age at which a secret is replaced. Zero disables it.
	Interval time.Duration
	// RotateAfter is the time after which secrets created before it are replaced. Zero disables it.
	RotateAfter time.Time
	// Overlap is the time for which a replaced secret remains valid after its successor is
	// delivered.
	Overlap time.Duration
	// UnusedFor ends a replaced secret before the end of the overlap if it has not been used for
	// this time. Zero disables it.
	UnusedFor time.Duration
}

// plan plans a client's secrets if the operator generates them.
func (s *Schedule) plan(f Facts, v View, now time.Time, random io.Reader) (Plan, error) {
	switch {
	case v.State == None:
		return deliverFirst(f, v, now, random)
	case v.State == Announced:
		return announce(f, v), nil
	case v.Active == v.External && v.Delivered < len(v.Valid)-1:
		return replaceExternal(v, now, random)
	}
	p := Plan{Secrets: slices.Clone(v.Valid[:v.Active+1]), Deliver: v.Plaintext, Continuous: true}
	if v.State == Lost {
		p.Step = StepLost
	}
	p.retire(now, s.Overlap)
	p.endWhenUnused(f.Uses, s.UnusedFor, now)
	due := s.due(p.Secrets[len(p.Secrets)-1])
	switch {
	case due.IsZero():
	case len(p.Secrets) > 1:
		p.Next = latest(due, p.Secrets[0].ExpiresAt)
	case now.Before(due):
		p.Next = due
	default:
		if err := p.generate(now, random); err != nil {
			return Plan{}, err
		}
		if p.Step == "" {
			p.Step = StepBegun
		}
	}
	return p, nil
}

// deliverFirst plans a secret for workloads that have none. The plan delivers it without waiting
// for an acknowledgement so that workloads can start. If the previous attempt to deliver a secret
// failed, the plan delivers the same one.
func deliverFirst(f Facts, v View, now time.Time, random io.Reader) (Plan, error) {
	if v.Pending {
		return Plan{Secrets: slices.Clone(v.Valid[len(v.Valid)-1:]), Deliver: f.Pending, Pending: f.Pending}, nil
	}
	var p Plan
	if err := p.generate(now, random); err != nil {
		return Plan{}, err
	}
	p.Deliver = p.Pending
	return p, nil
}

// announce keeps the active and the pending secret, and delivers the pending one after token
// servers have acknowledged it.
func announce(f Facts, v View) Plan {
	p := Plan{Secrets: v.Valid, Deliver: v.Plaintext, Pending: f.Pending, Continuous: true}
	if v.External >= 0 {
		p.Secrets, p.Deliver = []record.ClientSecret{v.Valid[v.Active], v.Valid[len(v.Valid)-1]}, ""
	}
	if f.Acknowledged {
		p.Deliver = f.Pending
	}
	return p
}

// replaceExternal adds a pending generated secret alongside one that was provided or listed in the
// spec.
func replaceExternal(v View, now time.Time, random io.Reader) (Plan, error) {
	p := Plan{Secrets: []record.ClientSecret{v.Valid[v.Active]}, Continuous: true}
	if err := p.generate(now, random); err != nil {
		return Plan{}, err
	}
	return p, nil
}

// generate appends a new pending secret.
func (p *Plan) generate(now time.Time, random io.Reader) error {
	plaintext, err := clientsecret.Generate(random)
	if err != nil {
		return err
	}
	secret, err := newSecret(plaintext, now, random)
	if err != nil {
		return err
	}
	p.Secrets, p.Pending = append(p.Secrets, secret), plaintext
	return nil
}

// due returns the time at which a secret must be replaced, or zero if it never must. A secret with
// an expiration is due immediately even if it is the only one. This happens if a user restores an
// old credentials Secret.
func (s *Schedule) due(secret record.ClientSecret) time.Time {
	if !secret.ExpiresAt.IsZero() {
		return secret.CreatedAt
	}
	var due time.Time
	if s.Interval > 0 {
		due = secret.CreatedAt.Add(s.Interval)
	}
	// CreatedAt has a precision of one second.
	if at := s.RotateAfter.Truncate(time.Second); secret.CreatedAt.Before(at) && (due.IsZero() || at.Before(due)) {
		due = at
	}
	return due
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// isGenerated reports whether value is the plaintext of s, a generated secret. It skips slow
// hashes, which are expensive to verify and never belong to generated secrets.
func isGenerated(s record.ClientSecret, value string) bool {
	verifier, err := clientsecret.ParseVerifier(s.Hash)
	return err == nil && value != "" && !verifier.IsSlow() && verifier.Verify(value)
}
