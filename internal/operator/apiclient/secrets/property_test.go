package secrets_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// life simulates a client over time. The operator plans and writes, token servers load the client's
// records, and workloads read the credentials Secret.
type life struct {
	now   time.Time
	facts secrets.Facts
	want  secrets.Want
	// loaded are the secrets in the last acknowledged record, which every token server accepts.
	loaded []record.ClientSecret
	// overlaps maps the plaintext of each replaced secret to the time until which it must remain
	// valid.
	overlaps map[string]time.Time
	external []secret
	provided string // the value of the provided Secret
	versions int
}

func newLife(t *testing.T) *life {
	t.Helper()
	l := &life{now: now, overlaps: map[string]time.Time{}, want: secrets.Want{Generated: &secrets.Schedule{}}}
	for range 4 {
		l.external = append(l.external, newSecret(t, now))
	}
	return l
}

// plan makes a plan, checks it, and writes it. Writing the credentials Secret may fail.
func (l *life) plan(t *rapid.T) {
	l.reportUses(t)
	got, err := secrets.Make(l.facts, l.want, l.now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	l.checkTwice(t, got)
	l.checkPlan(t, got)

	before := l.facts
	if !cmp.Equal(before.Recorded, got.Secrets) {
		l.facts.Acknowledged = false
	}
	l.facts.Recorded, l.facts.Pending = got.Secrets, got.Pending
	if got.Deliver != "" && rapid.IntRange(0, 5).Draw(t, "write fails") > 0 {
		if l.delivered() != got.Deliver {
			l.expectOverlap(l.delivered())
		}
		l.facts.Delivered = []string{got.Deliver}
		if got.Deliver == got.Pending {
			l.facts.Pending = ""
		}
	}
	if l.want.Generated == nil && got.Obsolete(l.facts.Delivered) {
		l.facts.Delivered = nil
	}
	l.checkState(t)
}

// reportUses makes the uses of the recorded secrets known if the schedule needs them.
func (l *life) reportUses(t *rapid.T) {
	l.facts.Uses = map[string]secrets.Use{}
	if l.want.Generated == nil || l.want.Generated.UnusedFor == 0 || rapid.Bool().Draw(t, "uses unknown") {
		return
	}
	for _, s := range l.facts.Recorded {
		l.facts.Uses[s.ID] = secrets.Use{
			Last:  l.now.Add(-time.Duration(rapid.IntRange(0, 5).Draw(t, "last use")) * time.Hour),
			Until: l.now.Add(-time.Duration(rapid.IntRange(0, 5000).Draw(t, "seconds since the reports")) * time.Second),
		}
	}
}

// delivered returns the value in the credentials Secret; empty for none.
func (l *life) delivered() string {
	if len(l.facts.Delivered) == 0 {
		return ""
	}
	return l.facts.Delivered[0]
}

// expectOverlap requires a replaced secret without an expiration to stay valid for the overlap, or
// for UnusedFor if that is shorter.
func (l *life) expectOverlap(plaintext string) {
	view := secrets.Look(secrets.Facts{Recorded: l.facts.Recorded, Delivered: []string{plaintext}}, l.now)
	if l.want.Generated != nil && view.Delivered >= 0 && view.Valid[view.Delivered].ExpiresAt.IsZero() {
		overlap := l.want.Generated.Overlap
		if unused := l.want.Generated.UnusedFor; unused > 0 {
			overlap = min(overlap, unused)
		}
		l.overlaps[plaintext] = l.now.Add(overlap)
	}
}

// checkTwice checks that planning again needs no random bytes and changes nothing.
func (l *life) checkTwice(t *rapid.T, p secrets.Plan) {
	f := l.facts
	f.Acknowledged = f.Acknowledged && cmp.Equal(f.Recorded, p.Secrets)
	f.Recorded, f.Pending = p.Secrets, p.Pending
	again, err := secrets.Make(f, l.want, l.now, noRandom)
	if err != nil {
		t.Fatal("planning again:", err)
	}
	first := p
	first.Step, first.Continuous = "", again.Continuous
	if diff := cmp.Diff(first, again); diff != "" {
		t.Fatalf("planning again (-first +second):\n%s", diff)
	}
}

// checkPlan checks the invariants of a plan.
func (l *life) checkPlan(t *rapid.T, p secrets.Plan) {
	view := secrets.Look(l.facts, l.now)
	if p.Secrets == nil || len(l.want.Hashed) == 0 && len(p.Secrets) > 2 {
		t.Fatalf("secrets %v, want at most two", p.Secrets)
	}
	for _, s := range p.Secrets {
		if !s.ExpiresAt.IsZero() && !l.now.Before(s.ExpiresAt) {
			t.Fatalf("plan contains the expired secret %s", s.ID)
		}
	}
	if p.Deliver != "" && !accepts(p.Secrets, p.Deliver, l.now) {
		t.Fatal("a delivered secret is not recorded")
	}
	if p.Deliver != "" && p.Deliver != l.delivered() && view.State != secrets.None && !accepts(l.loaded, p.Deliver, l.now) {
		t.Fatal("a secret is delivered before it is acknowledged, although workloads have a valid one")
	}
	if p.Pending != "" && !accepts(p.Secrets[len(p.Secrets)-1:], p.Pending, l.now) {
		t.Fatal("the pending secret is not the newest")
	}
	if kept := slices.ContainsFunc(view.Valid, func(s record.ClientSecret) bool {
		return slices.ContainsFunc(p.Secrets, func(planned record.ClientSecret) bool { return planned.Hash == s.Hash })
	}); p.Continuous && len(l.want.Hashed) == 0 && !kept {
		t.Fatal("a continuous plan keeps no secret")
	}
	if l.want.Generated != nil && view.State != secrets.None && !p.Continuous {
		t.Fatalf("in state %s the plan is not continuous", view.State)
	}
	if l.want.Generated == nil && (p.Deliver != "" || p.Pending != "" || !p.Next.IsZero()) {
		t.Fatalf("without a generated secret the plan is %+v", p)
	}
}

// checkState checks the invariants after a write.
func (l *life) checkState(t *rapid.T) {
	recorded := l.facts.Recorded
	replacing := slices.ContainsFunc(recorded, func(s record.ClientSecret) bool { return s.Source != "" })
	if l.want.Generated != nil && len(l.facts.Delivered) > 0 && !replacing && !accepts(recorded, l.delivered(), l.now) {
		t.Fatal("the credentials Secret has no valid secret")
	}
	if w := l.want.Provided; w != nil && !accepts(recorded, l.provided, l.now) {
		t.Fatal("the provided secret is not valid")
	}
	for plaintext, until := range l.overlaps {
		if l.now.Before(until) && !accepts(recorded, plaintext, l.now) {
			t.Fatalf("a replaced secret expired at %s, before %s", l.now, until)
		}
	}
}

// changeKind changes the kind of secret. If the new secret is provided, the previous one must stay
// valid for the overlap.
func (l *life) changeKind(t *rapid.T) {
	clear(l.overlaps)
	active := ""
	if view := secrets.Look(l.facts, l.now); view.State == secrets.Settled {
		active = l.delivered()
		for _, s := range l.external {
			if accepts(view.Valid, s.plaintext, l.now) {
				active = s.plaintext
			}
		}
	}
	l.want = secrets.Want{}
	switch rapid.SampledFrom([]string{"generated", "generated", "provided", "hashed", "none"}).Draw(t, "kind") {
	case "generated":
		l.want.Generated = &secrets.Schedule{
			Interval: time.Duration(rapid.IntRange(0, 10).Draw(t, "interval")) * time.Hour,
			Overlap:  time.Duration(rapid.IntRange(0, 5000).Draw(t, "overlap")) * time.Second,

			UnusedFor: time.Duration(rapid.IntRange(0, 2).Draw(t, "thirds of an hour without use")) * 20 * time.Minute,
		}
	case "provided":
		l.want.Provided = &secrets.Provided{Overlap: time.Duration(rapid.IntRange(0, 5000).Draw(t, "overlap")) * time.Second}
		l.provide(t)
		if active != "" && active != l.provided {
			l.overlaps[active] = l.now.Add(l.want.Provided.Overlap)
		}
	case "hashed":
		for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(l.external)-1), 1, 3, rapid.ID[int]).Draw(t, "hashes") {
			h := record.ClientSecret{ID: fmt.Sprint("h", n), Hash: l.external[n].Hash}
			if rapid.Bool().Draw(t, "expires") {
				h.ExpiresAt = l.now.Add(time.Duration(rapid.IntRange(-1, 5).Draw(t, "hours")) * time.Hour)
			}
			l.want.Hashed = append(l.want.Hashed, h)
		}
	}
}

// provide creates a new version of the provided Secret, with the same or a different value.
func (l *life) provide(t *rapid.T) {
	l.versions++
	w := *l.want.Provided
	value := rapid.SampledFrom(l.external).Draw(t, "value")
	w.Source, w.Hash, l.provided = fmt.Sprint("v1/", l.versions), value.Hash, value.plaintext
	l.want.Provided = &w
}

// step simulates one random event.
func (l *life) step(t *rapid.T) {
	events := []string{"nothing", "time", "long", "acknowledge", "acknowledge", "acknowledge", "crash", "delete", "kind"}
	switch {
	case l.want.Generated != nil:
		events = append(events, "rotate", "rotate")
	case l.want.Provided != nil:
		events = append(events, "provide")
	}
	switch rapid.SampledFrom(events).Draw(t, "event") {
	case "time":
		l.now = l.now.Add(time.Duration(rapid.IntRange(1, 3_600_000).Draw(t, "milliseconds")) * time.Millisecond)
	case "long":
		l.now = l.now.Add(time.Duration(rapid.IntRange(1, 24).Draw(t, "hours")) * time.Hour)
	case "acknowledge":
		l.facts.Acknowledged, l.loaded = true, l.facts.Recorded
	case "crash":
		l.facts.Pending = ""
	case "delete": // revokes the delivered secret
		l.facts.Delivered = nil
		clear(l.overlaps)
	case "kind":
		l.changeKind(t)
	case "rotate":
		s := *l.want.Generated
		s.RotateAfter = l.now
		l.want.Generated = &s
	case "provide":
		clear(l.overlaps) // a second change within an overlap revokes the oldest value
		l.provide(t)
	}
}

// For any sequence of events: planning twice changes nothing, workloads that read the credentials
// Secret have a valid secret, no secret is delivered before it is acknowledged, and a replaced
// secret stays valid for the overlap.
func TestPlanInvariants(t *testing.T) {
	fresh := newLife(t)
	rapid.Check(t, func(t *rapid.T) {
		l := *fresh
		l.overlaps = map[string]time.Time{}
		l.plan(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			l.step(t)
			l.plan(t)
		}
	})
}

// No secret is generated before the next rotation is due. The rotation then begins, and completes
// once it is acknowledged.
func TestRotationFollowsSchedule(t *testing.T) {
	fresh := newLife(t)
	rapid.Check(t, func(t *rapid.T) {
		l := *fresh
		l.overlaps = map[string]time.Time{}
		l.want.Generated = &secrets.Schedule{
			Interval: time.Duration(rapid.IntRange(1, 10).Draw(t, "interval")) * time.Hour,
			Overlap:  time.Duration(rapid.IntRange(0, 5000).Draw(t, "overlap")) * time.Second,
		}
		l.plan(t)
		l.facts.Delivered, l.facts.Pending = []string{deliverable(t, &l)}, ""
		for range rapid.IntRange(1, 5).Draw(t, "rotations") {
			p, err := secrets.Make(l.facts, l.want, l.now, noRandom)
			if err != nil || p.Next.IsZero() {
				t.Fatalf("no rotation planned: %+v, %v", p, err)
			}
			l.facts.Recorded = p.Secrets
			if _, err := secrets.Make(l.facts, l.want, p.Next.Add(-time.Nanosecond), noRandom); err != nil {
				t.Fatal("before the rotation:", err)
			}
			l.now = p.Next
			begun, err := secrets.Make(l.facts, l.want, l.now, rand.Reader)
			if err != nil || begun.Step != secrets.StepBegun || len(begun.Secrets) != 2 {
				t.Fatalf("when the rotation is due: %+v, %v", begun, err)
			}
			old := l.delivered()
			l.facts.Recorded, l.facts.Pending, l.facts.Acknowledged = begun.Secrets, begun.Pending, true
			l.facts.Delivered, l.facts.Pending = []string{deliverable(t, &l)}, ""
			done, err := secrets.Make(l.facts, l.want, l.now, noRandom)
			if err != nil || done.Step != secrets.StepCompleted || accepts(done.Secrets, old, l.now.Add(l.want.Generated.Overlap+time.Second)) {
				t.Fatalf("after the delivery: %+v, %v", done, err)
			}
			l.facts.Recorded = done.Secrets
		}
	})
}

// deliverable returns what the next plan delivers.
func deliverable(t *rapid.T, l *life) string {
	p, err := secrets.Make(l.facts, l.want, l.now, noRandom)
	if err != nil || p.Deliver == "" {
		t.Fatalf("nothing delivered: %+v, %v", p, err)
	}
	return p.Deliver
}
