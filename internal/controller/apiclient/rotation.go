package apiclient

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// plan is what becomes of a client's secrets.
type plan struct {
	// secrets are what the record shall have, the newest last.
	secrets []record.ClientSecret
	// plaintext is what the consumer Secret shall hold; empty: nothing yet.
	plaintext string
	// handedOut means that the consumer Secret holds one of secrets already.
	handedOut bool
	// unclaimed is the newest secret while the consumer Secret doesn't hold it; empty otherwise.
	unclaimed string
	// rotation is what this decision does to a rotation.
	rotation rotationStep
	// nextRotation is when a rotation shall begin; zero: none is planned, or one is under way.
	nextRotation time.Time
}

// rotationStep is a step of a rotation that counts in metrics.
type rotationStep string

// The steps of a rotation.
const (
	rotationNone rotationStep = ""
	// rotationBegun: there is a new secret, which token servers are to accept.
	rotationBegun rotationStep = "begun"
	// rotationForgotten: the new secret is lost with the process that made it, before anybody had it.
	rotationForgotten rotationStep = "forgotten"
	// rotationCompleted: workloads can read the new secret, and the old one has its end.
	rotationCompleted rotationStep = "completed"
)

// planGenerated plans the secrets of a client for which the operator makes them. A rotation
// takes these steps, and after a crash between any two the next look goes on with what it finds:
//
//  1. A new secret is made in memory, and its verifier recorded beside that of the old one.
//  2. When every live token server has acknowledged the record, the consumer Secret gets it. A
//     crash before that forgets the secret and begins again: the old one was valid all along.
//  3. The old verifier gets its end, the overlap from now.
//  4. At its end it is dropped. Token servers refuse it from then on by themselves.
//
// While two secrets are valid no rotation begins: one that workloads may still use doesn't end early.
func planGenerated(seen *observed, current []record.ClientSecret, now time.Time, random io.Reader) (plan, error) {
	rotation := seen.client.GeneratedSecret().Rotation
	current = valid(current, now)
	plaintext, held := consumerSecret(seen, current)
	newest := len(current) - 1
	waiting := newest >= 0 && verifies(current[newest:], seen.unclaimed)
	switch {
	case held < 0 && waiting:
		return plan{secrets: current[newest:], plaintext: seen.unclaimed, unclaimed: seen.unclaimed}, nil
	case held < 0:
		made, secret, err := newSecret(now, random)
		return plan{secrets: []record.ClientSecret{made}, plaintext: secret, unclaimed: secret}, err
	case held < newest && waiting:
		p := plan{secrets: current, plaintext: plaintext, handedOut: true, unclaimed: seen.unclaimed}
		if seen.state == acknowledgement.Acknowledged {
			p.plaintext = seen.unclaimed
		}
		return p, nil
	}
	p := plan{secrets: slices.Clone(current[:held+1]), plaintext: plaintext, handedOut: true}
	if held < newest {
		p.rotation = rotationForgotten
	}
	p.retire(now, rotation.EffectiveOverlap())
	due := dueAt(rotation, p.secrets[len(p.secrets)-1])
	switch {
	case due.IsZero():
	case len(p.secrets) > 1:
		p.nextRotation = latest(due, p.secrets[0].ExpiresAt)
	case now.Before(due):
		p.nextRotation = due
	default:
		made, secret, err := newSecret(now, random)
		if err != nil {
			return plan{}, err
		}
		p.secrets = append(p.secrets, made)
		p.unclaimed = secret
		if p.rotation == rotationNone {
			p.rotation = rotationBegun
		}
	}
	return p, nil
}

// retire gives those secrets their end that are older than the newest and have none.
func (p *plan) retire(now time.Time, overlap time.Duration) {
	for i := range p.secrets[:len(p.secrets)-1] {
		if s := &p.secrets[i]; s.ExpiresAt.IsZero() {
			s.ExpiresAt = endOf(now, overlap)
			p.rotation = rotationCompleted
		}
	}
	p.secrets = valid(p.secrets, now)
}

// endOf returns the first full second when a time of that length has passed; with none, now.
func endOf(now time.Time, length time.Duration) time.Time {
	if length <= 0 {
		return now.UTC()
	}
	return now.UTC().Add(length + time.Second - 1).Truncate(time.Second)
}

// dueAt returns when a secret is to be replaced; zero for never. What has an end is due,
// though it be the only one: somebody put the old secret back into the consumer Secret.
func dueAt(r v1alpha1.SecretRotation, s record.ClientSecret) time.Time {
	if !s.ExpiresAt.IsZero() {
		return s.CreatedAt
	}
	var due time.Time
	if r.Interval != nil {
		due = s.CreatedAt.Add(r.Interval.Duration)
	}
	// Secrets know the second in which they were made.
	if r.RotateAfter != nil {
		if at := r.RotateAfter.Truncate(time.Second); s.CreatedAt.Before(at) && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	return due
}

// valid returns those secrets that haven't ended.
func valid(secrets []record.ClientSecret, now time.Time) []record.ClientSecret {
	return slices.DeleteFunc(slices.Clone(secrets), func(s record.ClientSecret) bool {
		return !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt)
	})
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// newSecret makes a secret and its verifier.
func newSecret(now time.Time, random io.Reader) (record.ClientSecret, string, error) {
	secret, err := clientsecret.Generate(random)
	if err != nil {
		return record.ClientSecret{}, "", err
	}
	verifier, err := clientsecret.Hash(secret, random)
	if err != nil {
		return record.ClientSecret{}, "", fmt.Errorf("hashing a client secret: %w", err)
	}
	return record.ClientSecret{
		ID:        verifier.ID(),
		CreatedAt: now.UTC().Truncate(time.Second),
		Hash:      verifier.String(),
	}, secret, nil
}

// consumerSecret returns the secret in the consumer Secret that one of secrets verifies,
// under whatever key it stands, and the index of that one: of several the newest. The index is -1
// when there is none, or the Secret isn't this client's.
func consumerSecret(seen *observed, secrets []record.ClientSecret) (plaintext string, index int) {
	if seen.consumer == nil || !ours(seen.consumer, seen.client) {
		return "", -1
	}
	index = -1
	for _, value := range seen.consumer.Data {
		candidate := string(value)
		if !clientsecret.WellFormed(candidate) {
			continue
		}
		for i := index + 1; i < len(secrets); i++ {
			if verifies(secrets[i:i+1], candidate) {
				plaintext, index = candidate, i
			}
		}
	}
	return plaintext, index
}

func verifies(secrets []record.ClientSecret, candidate string) bool {
	for _, s := range secrets {
		if verifier, err := clientsecret.ParseVerifier(s.Hash); err == nil && verifier.Verify(candidate) {
			return true
		}
	}
	return false
}
