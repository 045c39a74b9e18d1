package apiclient

import (
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// plan is what becomes of a client's secrets.
type plan struct {
	// secrets are what the record shall have, the newest last.
	secrets []record.ClientSecret
	// plaintext is what the consumer Secret shall hold; empty: it isn't written.
	plaintext string
	// inUse means that workloads have one of secrets already, and had it before.
	inUse bool
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
//
// A secret that came from elsewhere before is replaced in the same steps.
func planGenerated(seen *observed, instance *config.Instance, current []record.ClientSecret, now time.Time, random io.Reader) (plan, error) {
	rotation := seen.client.GeneratedSecret().Rotation
	current = valid(current, now)
	plaintext, held := consumerSecret(seen, current)
	newest := len(current) - 1
	waiting := newest >= 0 && isOf(current[newest], seen.unclaimed)
	former := inForceElsewhere(current)
	switch {
	case held < 0, held < newest && len(former) > 0:
		return handOut(seen, current, former, waiting, now, random)
	case held < newest && waiting:
		p := plan{secrets: current, plaintext: plaintext, inUse: true, unclaimed: seen.unclaimed}
		if seen.state == acknowledgement.Acknowledged {
			p.plaintext = seen.unclaimed
		}
		return p, nil
	}
	p := plan{secrets: slices.Clone(current[:held+1]), plaintext: plaintext, inUse: true}
	if held < newest {
		p.rotation = rotationForgotten
	}
	p.retire(now, instance.Scaled(rotation.EffectiveOverlap()))
	due := dueAt(rotation, instance, p.secrets[len(p.secrets)-1])
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

// handOut plans a first secret for the consumer Secret. Where the client has nothing, it is
// handed out with the record, so that workloads which wait for it can start; beside a secret from
// elsewhere it waits for the token servers, as in a rotation.
func handOut(seen *observed, current, former []record.ClientSecret, waiting bool, now time.Time, random io.Reader) (plan, error) {
	p := plan{secrets: former, inUse: len(former) > 0, unclaimed: seen.unclaimed}
	if waiting {
		p.secrets = append(p.secrets, current[len(current)-1])
		if len(former) == 0 || seen.state == acknowledgement.Acknowledged {
			p.plaintext = seen.unclaimed
		}
		return p, nil
	}
	made, secret, err := newSecret(now, random)
	if err != nil {
		return plan{}, err
	}
	p.secrets, p.unclaimed = append(p.secrets, made), secret
	if len(former) == 0 {
		p.plaintext = secret
	}
	return p, nil
}

// inForceElsewhere returns the secret that came from elsewhere and was not replaced: of
// several the one that ends last, since a client has two secrets at most. None is an empty slice.
func inForceElsewhere(secrets []record.ClientSecret) []record.ClientSecret {
	var last []record.ClientSecret
	for _, s := range secrets {
		if s.Source != "" && (last == nil || s.ExpiresAt.IsZero() || !last[0].ExpiresAt.IsZero() && last[0].ExpiresAt.Before(s.ExpiresAt)) {
			last = []record.ClientSecret{s}
		}
	}
	return last
}

// retire gives those secrets their end that are older than the newest and were in force.
func (p *plan) retire(now time.Time, overlap time.Duration) {
	for i := range p.secrets[:len(p.secrets)-1] {
		s := &p.secrets[i]
		if !s.ExpiresAt.IsZero() && s.Source == "" {
			continue
		}
		if end := endOf(now, overlap); s.ExpiresAt.IsZero() || end.Before(s.ExpiresAt) {
			s.ExpiresAt = end
		}
		s.Source = ""
		p.secrets[len(p.secrets)-1].Successor = true
		p.rotation = rotationCompleted
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
func dueAt(r v1alpha1.SecretRotation, instance *config.Instance, s record.ClientSecret) time.Time {
	if !s.ExpiresAt.IsZero() {
		return s.CreatedAt
	}
	var due time.Time
	if r.Interval != nil {
		due = s.CreatedAt.Add(instance.Scaled(r.Interval.Duration))
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
	made, err := hash(secret, now, random)
	return made, secret, err
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
			if isOf(secrets[i], candidate) {
				plaintext, index = candidate, i
			}
		}
	}
	return plaintext, index
}

// isOf reports whether s has the verifier of a secret that the operator made; those are never slow.
func isOf(s record.ClientSecret, generated string) bool {
	verifier, err := clientsecret.ParseVerifier(s.Hash)
	return err == nil && generated != "" && !verifier.Slow() && verifier.Verify(generated)
}

// planSecrets plans a client's secrets by where they come from.
//
// The error is that of the random source.
func planSecrets(seen *observed, instance *config.Instance, now time.Time, random io.Reader) (plan, error) {
	switch source := secretSource(seen.client); {
	case source.Provided != nil:
		return planProvided(seen, instance, seen.secrets(), now, random)
	case len(source.Hashed) > 0:
		return planHashed(source.Hashed, seen.secrets(), now), nil
	case !seen.client.GeneratesSecret():
		// What the client had before ends at once, as with hashes that are taken out.
		return plan{secrets: []record.ClientSecret{}}, nil
	}
	return planGenerated(seen, instance, seen.secrets(), now, random)
}

// planProvided takes up what the provided Secret holds. That takes a slow hash where the value
// is new, and a slow verification where something else of the Secret has changed: so the record
// knows which version it was taken from. What was in force before stays for the overlap.
func planProvided(seen *observed, instance *config.Instance, current []record.ClientSecret, now time.Time, random io.Reader) (plan, error) {
	provided := secretSource(seen.client).Provided
	source, value := versionOf(seen.provided), string(seen.provided.Data[provided.SecretRef.EffectiveKey()])
	current = valid(current, now)
	if len(current) > 0 {
		newest := &current[len(current)-1]
		if newest.Source == source || fromSecret(newest.Source) && verifies(*newest, value) {
			newest.Source = source
			return plan{secrets: current, inUse: true}, nil
		}
	}
	made, err := hash(value, now, random)
	if err != nil {
		return plan{}, err
	}
	made.Source = source
	p := plan{secrets: append(inUse(seen, current), made)}
	p.retire(now, instance.Scaled(provided.EffectiveOverlap()))
	return p, nil
}

// inUse returns the secret that workloads use now; none is an empty slice.
func inUse(seen *observed, current []record.ClientSecret) []record.ClientSecret {
	if former := inForceElsewhere(current); len(former) > 0 {
		return former
	}
	if _, held := consumerSecret(seen, current); held >= 0 {
		return slices.Clone(current[held : held+1])
	}
	return nil
}

// planHashed takes the hashes as they stand in the spec, and no others.
func planHashed(hashes []v1alpha1.HashedSecret, current []record.ClientSecret, now time.Time) plan {
	var p plan
	for _, h := range hashes {
		s := record.ClientSecret{ID: h.ID, CreatedAt: now.UTC().Truncate(time.Second), Hash: h.Hash, Source: sourceSpec}
		if h.ExpiresAt != nil {
			s.ExpiresAt = h.ExpiresAt.UTC()
		}
		for _, known := range current {
			if known.Source == sourceSpec && known.ID == h.ID && known.Hash == h.Hash {
				s.CreatedAt, p.inUse = known.CreatedAt, true
			}
		}
		p.secrets = append(p.secrets, s)
	}
	p.secrets = valid(p.secrets, now)
	return p
}

// sourceSpec is the record's word for a secret whose hash stands in the spec.
const sourceSpec = "spec"

func fromSecret(source string) bool { return source != "" && source != sourceSpec }

// hash makes the verifier of a secret that a person provides: a slow one, but for what
// generated secrets look like.
func hash(secret string, now time.Time, random io.Reader) (record.ClientSecret, error) {
	hashed := clientsecret.HashSlowly
	if clientsecret.WellFormed(secret) {
		hashed = clientsecret.Hash
	}
	verifier, err := hashed(secret, random)
	if err != nil {
		return record.ClientSecret{}, fmt.Errorf("hashing a client secret: %w", err)
	}
	return record.ClientSecret{
		ID:        verifier.ID(),
		CreatedAt: now.UTC().Truncate(time.Second),
		Hash:      verifier.String(),
	}, nil
}

func verifies(s record.ClientSecret, value string) bool {
	verifier, err := clientsecret.ParseVerifier(s.Hash)
	return err == nil && verifier.Verify(value)
}

// hashesSlowly reports whether a decision will hash or verify slowly.
func hashesSlowly(seen *observed) bool {
	if seen.provided == nil || !readable(seen.provided) {
		return false
	}
	source := versionOf(seen.provided)
	return !slices.ContainsFunc(seen.secrets(), func(s record.ClientSecret) bool { return s.Source == source })
}

// needless returns the Secrets that the operator made for the client and that it needs no more:
// those of another name, and all when nothing that they hold is valid any longer.
func needless(seen *observed, p plan) []corev1.Secret {
	return slices.DeleteFunc(slices.Clone(seen.owned), func(s corev1.Secret) bool {
		if seen.client.GeneratesSecret() {
			return s.Name == seen.client.EffectiveSecretName()
		}
		one := *seen
		one.consumer = &s
		_, held := consumerSecret(&one, slices.DeleteFunc(slices.Clone(p.secrets), func(s record.ClientSecret) bool { return s.Source != "" }))
		return held >= 0
	})
}

// newestHandedOut reports whether the consumer Secret holds the newest secret of the record, or is yet to get it.
func newestHandedOut(seen *observed) bool {
	secrets := seen.secrets()
	_, held := consumerSecret(seen, secrets)
	newest := len(secrets) - 1
	return held >= 0 && (held == newest || isOf(secrets[newest], seen.unclaimed))
}
