package secrets

import (
	"io"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// Schedule defines when a generated secret is replaced.
type Schedule struct {
	// Interval is the age at which a secret is replaced. Zero disables it.
	Interval time.Duration
	// RotateAfter is when a rotation was requested. Once it has passed, secrets that were created before it are
	// replaced. Zero disables it.
	RotateAfter time.Time
	// Overlap is the time for which a replaced secret remains valid after its successor is
	// delivered.
	Overlap time.Duration
	// UnusedFor lets a replaced secret expire before the overlap is over if it has not been used for
	// this time. Zero disables it.
	UnusedFor time.Duration
}

// rotation is the state of a generated secret while its next step is planned.
type rotation struct {
	*Schedule
	*Facts
	now    time.Time
	random io.Reader
	plan   Plan
}

// planGenerated plans the next step of a client's generated secret. What the credentials Secret contains decides.
func (s *Schedule) planGenerated(f *Facts, recorded []record.ClientSecret, now time.Time, random io.Reader) (Plan, error) {
	r := rotation{s, f, now, random, Plan{Secrets: recorded}}
	err := r.step()
	return r.plan, err
}

// step plans the next step, with the names of docs/architecture.md: First 2 adopts the value that the Secret contains;
// First 1 or Revocation writes one, or first removes the verifiers; Rotation 1 to 3 and 5 continue from the current
// secret; Rotation 4 finishes a promotion. A value that a user wrote back is accepted again.
func (r *rotation) step() error {
	secret, value := r.inUse()
	r.plan.Current = value
	restored := secret != nil && !slices.ContainsFunc(r.plan.Secrets, func(s record.ClientSecret) bool { return s.ID == secret.ID })
	switch {
	case secret == nil && r.adoptable(r.Credentials.current()):
		return r.adoptCurrent()
	case secret == nil:
		return r.withoutValue()
	case !restored && isGeneratedCurrent(*secret):
		r.plan.Secrets = retireOthers(r.plan.Secrets, *secret, r.now, r.Overlap)
		return r.continueRotation()
	case !restored && secret.Role == record.RoleNext:
		r.finishPromotion(*secret)
	case !r.Live:
		r.plan.Inconclusive = true
	default:
		r.returned(*secret)
	}
	return nil
}

func (c *Credentials) current() Value {
	if c == nil {
		return Value{}
	}
	return c.Current
}

// inUse returns the recorded or restored secret that workloads use, and its value; nil if they use none. That
// is the value under the current key. If that one is unknown, for example because the key has another name
// now, it is the value of the current secret under any other key.
func (r *rotation) inUse() (*record.ClientSecret, Value) {
	accepted := slices.Concat(r.plan.Secrets, Valid(r.Restored, r.now))
	under := r.Credentials.current()
	if i := slices.IndexFunc(accepted, func(s record.ClientSecret) bool { return isValueOf(s, under.Plaintext) }); i >= 0 {
		return &accepted[i], r.marked(under)
	}
	if i := r.role(record.RoleCurrent); i >= 0 {
		if value := r.heldValue(i); value != "" {
			return &accepted[i], r.marked(Value{Plaintext: value})
		}
	}
	return nil, Value{}
}

// role returns the index of the generated secret with a role, or -1.
func (r *rotation) role(role record.SecretRole) int {
	return slices.IndexFunc(r.plan.Secrets, func(s record.ClientSecret) bool { return s.Source == "" && s.Role == role })
}

// heldValue returns the value of a recorded secret if the credentials Secret contains it under any key.
func (r *rotation) heldValue(index int) string {
	for _, value := range r.Credentials.values() {
		if isValueOf(r.plan.Secrets[index], value) {
			return value
		}
	}
	return ""
}

// marked returns the value with a serial. A user may have removed the mark of a value that the record
// knows.
func (r *rotation) marked(v Value) Value {
	if v.Serial == 0 {
		v.Serial = r.Serial
	}
	return v
}

// adoptable reports whether the operator has generated the value after all those that the record has
// adopted. A client without a record adopts every value that was generated for it.
func (r *rotation) adoptable(v Value) bool {
	return v.Serial != 0 && (v.Serial == r.Serial+1 || r.Serial == 0)
}

// adoptCurrent adds the verifier of a value that the operator has written to the current key. It replaces
// all generated secrets, whose values are no longer in the Secret, and the secrets of other kinds after
// the overlap.
func (r *rotation) adoptCurrent() error {
	v := r.Credentials.Current
	verifier, err := newVerifier(v.Plaintext, record.RoleCurrent, r.now, r.random)
	if err != nil {
		return err
	}
	if r.plan.Inconclusive = r.generates() && !r.Live; r.plan.Inconclusive {
		return nil
	}
	r.dropGenerated()
	for i := range r.plan.Secrets {
		retire(&r.plan.Secrets[i], r.now, r.Overlap)
		verifier.Successor = true
	}
	r.plan.Secrets = append(Valid(r.plan.Secrets, r.now), verifier)
	r.plan.Serial, r.plan.Current = v.Serial, v
	if next := r.Credentials.Next; next.Serial == v.Serial+1 {
		r.plan.Next, r.plan.Unfinished = next, true // The record was lost during a rotation.
	}
	return nil
}

// generates reports whether the record has a generated secret that hasn't been replaced.
func (r *rotation) generates() bool {
	return r.role(record.RoleCurrent) >= 0 || r.role(record.RoleNext) >= 0
}

// dropGenerated drops the verifiers of all generated secrets.
func (r *rotation) dropGenerated() {
	r.plan.Secrets = slices.DeleteFunc(r.plan.Secrets, func(s record.ClientSecret) bool { return s.Source == "" })
}

// withoutValue plans the first value of a credentials Secret that contains none that workloads can use.
// If the record has verifiers, a user has revoked their values by deleting or overwriting them. The
// verifiers are dropped before the Secret gets a new value, so that a revocation takes effect even if the
// Secret can't be written.
func (r *rotation) withoutValue() error {
	known := len(r.plan.Secrets) > 0 || r.Serial > 0 || r.Credentials != nil
	if known && !r.Live {
		r.plan.Inconclusive = true
		return nil
	}
	before := len(r.plan.Secrets)
	r.dropGenerated()
	if len(r.plan.Secrets) < before {
		r.plan.Step, r.plan.Unfinished = StepRevoke, true
		return nil
	}
	r.plan.KeepsSecret = before > 0
	if r.Unwritable {
		return nil
	}
	fresh, err := r.fresh()
	if err != nil {
		return err
	}
	r.plan.Current, r.plan.Step, r.plan.Unfinished = fresh, StepWriteFirst, true
	return nil
}

// fresh generates the value that follows those that the record has adopted.
func (r *rotation) fresh() (Value, error) {
	plaintext, err := clientsecret.Generate(r.random)
	return Value{plaintext, r.Serial + 1}, err
}

// continueRotation plans the next step of a client whose workloads use the current secret.
func (r *rotation) continueRotation() error {
	r.plan.KeepsSecret = true
	if next := r.role(record.RoleNext); next >= 0 {
		return r.promoteOrDrop(next)
	}
	candidate := Value{}
	if r.Credentials != nil {
		candidate = r.Credentials.Next
	}
	if r.adoptable(candidate) {
		return r.adoptNext(candidate)
	}
	if r.expireUnused() {
		return nil
	}
	due := r.due(r.plan.Secrets[slices.IndexFunc(r.plan.Secrets, isGeneratedCurrent)])
	switch expires := lastExpiration(r.plan.Secrets); {
	case due.IsZero():
	case !expires.IsZero():
		r.plan.NextRotation = timestamp.Latest(due, expires)
	case r.now.Before(due):
		r.plan.NextRotation = due
	case r.Unwritable:
	case candidate.Plaintext != "" && !r.Live:
		r.plan.Inconclusive = true // The record may lag, and the value may be one that it has adopted.
	default:
		fresh, err := r.fresh()
		r.plan.Next, r.plan.Step, r.plan.Unfinished = fresh, StepWriteNext, true
		return err
	}
	return nil
}

func isGeneratedCurrent(s record.ClientSecret) bool {
	return s.Source == "" && s.Role == record.RoleCurrent
}

// lastExpiration returns the time at which the last retiring secret expires; zero if there is none.
func lastExpiration(secrets []record.ClientSecret) time.Time {
	var last time.Time
	for _, s := range secrets {
		last = timestamp.Latest(last, s.ExpiresAt)
	}
	return last
}

// adoptNext adds the verifier of a value that the operator has written to the next key.
func (r *rotation) adoptNext(v Value) error {
	verifier, err := newVerifier(v.Plaintext, record.RoleNext, r.now, r.random)
	r.plan.Secrets = append(r.plan.Secrets, verifier)
	r.plan.Serial, r.plan.Next = v.Serial, v
	return err
}

// promoteOrDrop makes the next value the current one when every live token server accepts it. If a user has
// removed the value from the Secret, its verifier is dropped.
func (r *rotation) promoteOrDrop(next int) error {
	value := r.heldValue(next)
	switch {
	case value == "" && !r.Live:
		r.plan.Inconclusive = true
	case value == "":
		r.plan.Secrets = slices.Delete(r.plan.Secrets, next, next+1)
		r.plan.Step, r.plan.Unfinished = StepRevoke, true
	case r.Acknowledged && !r.Unconfirmed && !r.Unwritable:
		r.plan.Current, r.plan.Step, r.plan.Unfinished = Value{value, r.Serial}, StepPromote, true
	default:
		r.plan.Next = Value{value, r.Serial}
	}
	return nil
}

// finishPromotion makes the next secret the current one, because the Secret says so, and lets the old one
// expire after the overlap.
func (r *rotation) finishPromotion(next record.ClientSecret) {
	r.makeCurrent(next)
	r.plan.Secrets[len(r.plan.Secrets)-1].Successor = true
	r.plan.Step = StepRetire
}

// returned makes a retiring or restored secret the current one, because a user has written its value to
// the Secret. The schedule then replaces it like any other.
func (r *rotation) returned(s record.ClientSecret) {
	s.ExpiresAt, s.ReplacedAt, s.Source = time.Time{}, time.Time{}, ""
	if next := r.role(record.RoleNext); next >= 0 && r.heldValue(next) == "" {
		r.plan.Secrets = slices.Delete(r.plan.Secrets, next, next+1)
	}
	r.makeCurrent(s)
}

// makeCurrent makes s the current secret and retires the previous one.
func (r *rotation) makeCurrent(s record.ClientSecret) {
	r.plan.KeepsSecret = true
	r.plan.Secrets = slices.DeleteFunc(r.plan.Secrets, func(other record.ClientSecret) bool { return other.ID == s.ID })
	s.Role = record.RoleCurrent
	r.plan.Secrets = append(retireOthers(r.plan.Secrets, s, r.now, r.Overlap), s)
}

// due returns the time at which a secret must be replaced, or zero if it never must.
func (s *Schedule) due(secret record.ClientSecret) time.Time {
	var due time.Time
	if s.Interval > 0 {
		due = secret.CreatedAt.Add(s.Interval)
	}
	// CreatedAt has a precision of one second.
	if at := s.RotateAfter.Truncate(time.Second); secret.CreatedAt.Before(at) {
		due = timestamp.Earliest(due, at)
	}
	return due
}
