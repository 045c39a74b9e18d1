// Package secrets plans the lifecycle of a client's secrets. The plan is a pure function of the
// observed facts, the time, and the random source.
//
// A generated secret is first written to the credentials Secret, and its plaintext is nowhere else. The record
// contains the verifiers, each with a role. Every step is one write of one of the two objects,
// conditional on the revision from which it was planned, so after a crash between two steps, any
// operator continues from the two objects:
//
//  1. The first value: create the Secret with it, then add its verifier to the record as current.
//  2. A rotation: add a second value to the Secret under the next key, and its verifier to the record as
//     next. When every live token server has acknowledged that, move the value to the current key, and
//     let the old verifier retire: it expires after the overlap. A schedule can let it expire earlier, when
//     it has not been used for some time.
//  3. A revocation: a user deletes the Secret or overwrites its values. First drop the verifiers, then
//     write a fresh value.
//
// The operator writes only fresh values, and only over the revision that it has read. A value that has
// left the Secret can therefore not return because of a late write, so its verifier can be dropped.
// Values are numbered. The record contains the number of the latest value that it has adopted, and adopts
// only the one that follows.
package secrets

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// Facts describes the observed secrets of one client.
type Facts struct {
	// Recorded are the secrets in the client's record, oldest first, and Serial is the number of the latest
	// generated one. Both are empty if there is no record for the client's Realm.
	Recorded []record.ClientSecret
	Serial   int64
	// Restored are the secrets of a backup that are accepted in addition to Recorded.
	Restored []record.ClientSecret
	// Credentials are the values in the client's credentials Secret; nil if the client owns none.
	Credentials *Credentials
	// Live reports whether the other facts were read from the API server and not from caches.
	Live bool
	// Acknowledged reports whether every live token server serves the record. Unconfirmed reports that this
	// could not be confirmed with the API server: no step that NeedsConfirmation is planned.
	Acknowledged, Unconfirmed bool
	// Unwritable reports whether the credentials Secret can't be written.
	Unwritable bool
	// Uses contains the known uses of recorded secrets, by the ID of the secret. Only a schedule with
	// UnusedFor needs it.
	Uses map[string]Use
}

// Want describes the secret that the spec requests. At most one field is set. If none is set, the
// client has no secret.
type Want struct {
	Generated *Schedule
	Provided  *Provided
	// Hashed are the hashes listed in the spec. Only ID, Hash, Source, and ExpiresAt are used.
	Hashed []record.ClientSecret
}

// Plan is the desired state of a client's secrets.
type Plan struct {
	// Secrets are the desired secrets in the record, oldest first.
	Secrets []record.ClientSecret
	// Serial is the number of the latest generated secret that the record has adopted.
	Serial int64
	// Restored are the secrets of a backup that are accepted in addition to Secrets.
	Restored []record.ClientSecret
	// Current and Next are the desired values in the credentials Secret. If Current is empty, the
	// Secret is unchanged.
	Current, Next Value
	// Inconclusive reports whether the caches may lag. The caller must write nothing and plan again with
	// facts from the API server.
	Inconclusive bool
	// ConfirmUses reports that a secret expires if the API server confirms its Use. The caller must write nothing and
	// plan again with confirmed ones.
	ConfirmUses bool
	// Unfinished reports whether another step follows the writes of this plan immediately.
	Unfinished bool
	// KeepsSecret reports whether workloads have a valid secret before and after the change.
	KeepsSecret bool
	// Step is the step that the plan takes; empty if it takes none, or if it only adopts a value or drops what
	// has expired.
	Step Step
	// NextRotation is the time at which the next rotation begins; zero if none is planned or one is in
	// progress.
	NextRotation time.Time
	// Check is the time at which an old secret may expire because it is unused; zero if there is no such
	// secret. If the uses of the secret are not known, Check is the time of the plan.
	Check time.Time
}

// Step is a step in the life of a generated secret, or the replacement of a provided one.
type Step string

// Steps in the life of a generated secret, with the names of docs/architecture.md. First 2, Rotation 2, and what
// expires in Rotation 5 have no Step, because nothing is counted or confirmed for them.
const (
	// StepWriteFirst is First 1. It writes a value to a credentials Secret that has no valid one.
	StepWriteFirst Step = "WriteFirst"
	// StepWriteNext is Rotation 1. It adds the next value to the credentials Secret.
	StepWriteNext Step = "WriteNext"
	// StepPromote is Rotation 3. It makes the next value the current one in the credentials Secret.
	StepPromote Step = "Promote"
	// StepRetire is Rotation 4. It makes the new secret, generated or provided, the current one in the record,
	// and lets the old one expire.
	StepRetire Step = "Retire"
	// StepRevoke is Revocation. It drops the verifiers of values that a user has removed from the credentials
	// Secret.
	StepRevoke Step = "Revoke"
	// StepExpireUnused is Rotation 5 for an old value that is unused. It drops its verifier.
	StepExpireUnused Step = "ExpireUnused"
)

// NeedsConfirmation reports whether the step can't be undone and depends on every live token server, so the
// caller must first confirm with the API server that each of them serves the record.
func (s Step) NeedsConfirmation() bool { return s == StepPromote || s == StepExpireUnused }

// Make plans a client's secrets. Make is idempotent: a plan with the facts after its writes yields a plan
// that writes nothing or takes the next step.
//
// Errors come from the random source, or from a provided hash that can't be parsed.
func Make(f Facts, w Want, now time.Time, random io.Reader) (Plan, error) {
	p, err := f.planFor(w, now, random)
	if err != nil {
		return Plan{}, err
	}
	p.Serial = max(p.Serial, f.Serial)
	p.Restored = f.stillRestored(w, p.Secrets, now)
	return p, nil
}

func (f *Facts) planFor(w Want, now time.Time, random io.Reader) (Plan, error) {
	recorded := Valid(f.Recorded, now)
	switch {
	case w.Provided != nil:
		return w.Provided.planProvided(recorded, now)
	case len(w.Hashed) > 0:
		return planHashed(w.Hashed, f.Recorded, now), nil
	case w.Generated != nil:
		return w.Generated.planGenerated(f, recorded, now, random)
	}
	// Previous secrets expire immediately, like hashes that are removed from the spec.
	return Plan{Secrets: []record.ClientSecret{}}, nil
}

// Valid returns the secrets that have not expired.
func Valid(secrets []record.ClientSecret, now time.Time) []record.ClientSecret {
	return slices.DeleteFunc(slices.Clone(secrets), func(s record.ClientSecret) bool {
		return !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt)
	})
}

// Obsolete reports whether a credentials Secret with the given values contains none of the plan's
// generated secrets.
func (p Plan) Obsolete(values []string) bool {
	return !slices.ContainsFunc(p.Secrets, func(s record.ClientSecret) bool {
		return s.Source == "" && slices.ContainsFunc(values, func(value string) bool { return isValueOf(s, value) })
	})
}

// retireOthers retires all secrets except for the one in use and the next one, and returns those that are valid.
// Usually, all others are already retiring, but someone with the operator's credentials can add one without an
// expiration.
func retireOthers(all []record.ClientSecret, inUse record.ClientSecret, now time.Time, overlap time.Duration) []record.ClientSecret {
	for i := range all {
		if s := &all[i]; s.Hash != inUse.Hash && s.Role != record.RoleNext {
			retire(s, now, overlap)
		}
	}
	return Valid(all, now)
}

// retire makes a secret expire at the end of the overlap, unless it expires already.
func retire(s *record.ClientSecret, now time.Time, overlap time.Duration) {
	if s.Role == record.RoleRetiring && !s.ExpiresAt.IsZero() {
		return
	}
	if end := expiration(now, overlap); s.ExpiresAt.IsZero() || end.Before(s.ExpiresAt) {
		s.ExpiresAt = end
	}
	s.Role, s.ReplacedAt = record.RoleRetiring, timestamp.RoundUp(now.UTC())
}

// expiration returns the end of an overlap that begins now, rounded up to a whole second. Without
// an overlap, it returns now.
func expiration(now time.Time, overlap time.Duration) time.Time {
	if overlap <= 0 {
		return now.UTC()
	}
	return timestamp.RoundUp(now.UTC().Add(overlap))
}

// newVerifier hashes a generated secret for the record.
func newVerifier(plaintext string, role record.SecretRole, now time.Time, random io.Reader) (record.ClientSecret, error) {
	verifier, err := clientsecret.Hash(plaintext, random)
	if err != nil {
		return record.ClientSecret{}, fmt.Errorf("hashing a client secret: %w", err)
	}
	return record.ClientSecret{
		ID:        verifier.ID(),
		CreatedAt: now.UTC().Truncate(time.Second),
		Hash:      verifier.String(),
		Role:      role,
	}, nil
}

// isValueOf reports whether value is the plaintext of s, a generated secret. It skips slow hashes, which
// are expensive to verify and never belong to generated secrets.
func isValueOf(s record.ClientSecret, value string) bool {
	verifier, err := clientsecret.ParseVerifier(s.Hash)
	return err == nil && value != "" && !verifier.IsSlow() && verifier.Verify(value)
}
