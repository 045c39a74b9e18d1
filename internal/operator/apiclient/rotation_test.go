package apiclient

import (
	"bytes"
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// rotating makes the secret rotate every ten hours, with an overlap of one.
func rotating(seen *observed) {
	seen.client.Spec.Secret = &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{
		Rotation: v1alpha1.SecretRotation{Interval: hours(10), Overlap: hours(1)},
	}}
}

func hours(n int) *metav1.Duration { return &metav1.Duration{Duration: time.Duration(n) * time.Hour} }

// look decides at a time and writes the decision.
func look(t *testing.T, seen *observed, at time.Time) decision {
	t.Helper()
	d, err := decide(*seen, instance(), at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	*seen = written(t, *seen, d)
	seen.pending = d.plan.Pending
	if d.credentials != nil && d.plan.Deliver == d.plan.Pending {
		seen.pending = ""
	}
	return d
}

// A rotation takes its steps one after the other, and at each of them a secret that
// workloads may have is valid.
func TestRotation(t *testing.T) {
	seen := seenAt(rotating)
	look(t, &seen, now)
	old := plaintext(&seen)
	due := now.Add(10 * time.Hour)

	d := look(t, &seen, due.Add(-time.Second))
	if len(d.record.Secrets) != 1 || !d.plan.Next.Equal(due) {
		t.Fatalf("before it is due there are %d secrets, the next rotation is at %s", len(d.record.Secrets), d.plan.Next)
	}

	d = look(t, &seen, due)
	created := d.record.Secrets[len(d.record.Secrets)-1].CreatedAt
	if d.plan.Step != secrets.StepBegun || len(d.record.Secrets) != 2 || plaintext(&seen) != old || !d.secretsOnly {
		t.Fatalf("when it is due: %+v", d.plan)
	}
	for _, state := range []acknowledgement.State{acknowledgement.Waiting, acknowledgement.NoServer} {
		seen.state = state
		if d = look(t, &seen, due.Add(time.Hour)); plaintext(&seen) != old || len(d.record.Secrets) != 2 || d.plan.Step != "" {
			t.Fatalf("while token servers are %d the consumer Secret gets another secret, or the record: %+v", state, d.plan)
		}
	}

	seen.state = acknowledgement.Acknowledged
	handedOut := due.Add(2 * time.Hour)
	d = look(t, &seen, handedOut)
	fresh := plaintext(&seen)
	if fresh == old || !verifiesAny(d.record.Secrets, old) || !verifiesAny(d.record.Secrets, fresh) {
		t.Fatal("when the token servers are ready the consumer Secret doesn't get the new secret beside the old one")
	}

	d = look(t, &seen, handedOut.Add(time.Second))
	ends := handedOut.Add(time.Hour + time.Second)
	if d.plan.Step != secrets.StepCompleted || !d.record.Secrets[0].ExpiresAt.Equal(ends) || !d.secretsOnly {
		t.Fatalf("the old secret doesn't get its end %s: %+v", ends, d.plan)
	}
	if d = look(t, &seen, ends.Add(-time.Second)); len(d.record.Secrets) != 2 || d.plan.Step != "" {
		t.Fatalf("before the old secret's end: %+v", d.plan)
	}
	d = look(t, &seen, ends)
	want := secrets.Plan{Secrets: []record.ClientSecret{{ID: d.record.Secrets[0].ID, CreatedAt: created, Hash: d.record.Secrets[0].Hash, Successor: true}}, Deliver: fresh, Continuous: true, Next: created.Add(10 * time.Hour)}
	if diff := cmp.Diff(want, d.plan); diff != "" || verifiesAny(d.record.Secrets, old) {
		t.Errorf("at the old secret's end (-want +got):\n%s", diff)
	}
}

// When the last rotation was is told as long as its secret is there: also when the status
// could not be written at the time, and the old secret is long gone.
func TestRotationIsToldHoweverLate(t *testing.T) {
	seen := seenAt(rotating)
	seen.state = acknowledgement.Acknowledged
	look(t, &seen, now)
	due := now.Add(10 * time.Hour)
	d := look(t, &seen, due)
	if got := status(seen, d, applied{recorded: true}, instance(), due).LastRotationTime; got != nil {
		t.Errorf("before anybody has the new secret the last rotation was at %s", got)
	}
	for range 2 {
		look(t, &seen, due)
	}
	late := due.Add(5 * time.Hour)
	for range 2 {
		d = look(t, &seen, late)
		if got := status(seen, d, applied{recorded: true}, instance(), late).LastRotationTime; got == nil || !got.Time.Equal(due) {
			t.Errorf("the last rotation was at %v, want %s", got, due)
		}
	}
}

// What interrupts a rotation leads to the state that is told here, never to a client without a valid secret.
func TestRotationDisturbed(t *testing.T) {
	due := now.Add(10 * time.Hour)
	for name, test := range map[string]struct {
		disturb    func(*observed)
		wantStep   secrets.Step
		wantOld    bool // the old secret is valid afterwards
		wantHanded bool // the secret made before the disturbance is valid afterwards
	}{
		"nothing":                   {func(*observed) {}, "", true, true},
		"operator killed":           {func(s *observed) { s.pending = "" }, secrets.StepLost, true, false},
		"rotation taken back":       {func(s *observed) { s.client.Spec.Secret = nil }, "", true, true},
		"killed and taken back":     {func(s *observed) { s.client.Spec.Secret, s.pending = nil, "" }, secrets.StepLost, true, false},
		"consumer Secret deleted":   {func(s *observed) { s.credentials = nil }, "", false, true},
		"deleted, operator killed":  {func(s *observed) { s.credentials, s.pending = nil, "" }, "", false, false},
		"realm recreated":           {func(s *observed) { s.realm.UID = "r2" }, "", false, false},
		"certificate authority off": {func(s *observed) { s.authority, s.authorityMissing = nil, true }, "", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			seen := seenAt(rotating)
			look(t, &seen, now)
			old := plaintext(&seen)
			look(t, &seen, due)
			made := seen.pending
			test.disturb(&seen)
			d := look(t, &seen, due.Add(time.Minute))
			if d.plan.Step != test.wantStep || verifiesAny(d.record.Secrets, old) != test.wantOld || verifiesAny(d.record.Secrets, made) != test.wantHanded {
				t.Errorf("step %q, the old is valid: %t, the one made: %t; want %+v", d.plan.Step, verifiesAny(d.record.Secrets, old), verifiesAny(d.record.Secrets, made), test)
			}
			if plaintext(&seen) == "" {
				t.Error("the consumer Secret holds nothing that is valid")
			}
		})
	}
}

// Moved again while the old secret is still valid, rotateAfter waits for its end.
func TestRotationWaitsForTheOverlap(t *testing.T) {
	seen := seenAt(rotating)
	seen.state = acknowledgement.Acknowledged
	look(t, &seen, now)
	due := now.Add(10 * time.Hour)
	for range 3 {
		look(t, &seen, due)
	}
	if len(seen.current.Secrets) != 2 || seen.current.Secrets[0].ExpiresAt.IsZero() {
		t.Fatalf("there is no overlap: %+v", seen.current.Secrets)
	}
	ends := seen.current.Secrets[0].ExpiresAt
	seen.client.Spec.Secret.Generated.Rotation.RotateAfter = &metav1.Time{Time: due.Add(time.Minute)}
	if d := look(t, &seen, due.Add(2*time.Minute)); d.plan.Step != "" || !d.plan.Next.Equal(ends) {
		t.Errorf("within the overlap: %+v, want nothing before %s", d.plan, ends)
	}
	if d := look(t, &seen, ends); d.plan.Step != secrets.StepBegun || len(d.record.Secrets) != 2 {
		t.Errorf("at its end: %+v, want the rotation", d.plan)
	}
}

// Whatever happens in whatever order, there are at most two secrets, what the consumer Secret holds
// is valid and was acknowledged before it got there, and what it held stays valid for the overlap.
func TestRotationKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seen := seenAt(rotating)
		at := now
		look(t, &seen, at)
		acknowledged := slices.Clone(seen.current.Secrets) // what every token server accepts
		promised := map[string]time.Time{}                 // secrets that were replaced, and until when they are valid at least
		for range rapid.IntRange(1, 60).Draw(rt, "events") {
			before, deleted := plaintext(&seen), false
			switch rapid.SampledFrom([]string{"time", "long", "acknowledge", "kill", "delete", "rotate", "nothing"}).Draw(rt, "event") {
			case "time":
				at = at.Add(time.Duration(rapid.IntRange(1, 3600).Draw(rt, "seconds")) * time.Second)
			case "long":
				at = at.Add(time.Duration(rapid.IntRange(1, 24).Draw(rt, "hours")) * time.Hour)
			case "acknowledge":
				acknowledged, seen.state = slices.Clone(seen.current.Secrets), acknowledgement.Acknowledged
			case "kill":
				seen.pending = ""
			case "delete":
				seen.credentials, deleted = nil, true
				clear(promised)
			case "rotate":
				seen.client.Spec.Secret.Generated.Rotation.RotateAfter = &metav1.Time{Time: at}
			}
			recorded := seen.record
			look(t, &seen, at)
			if !bytes.Equal(recorded.Data[record.DataKey], seen.record.Data[record.DataKey]) {
				seen.state = acknowledgement.Waiting
			}
			current := seen.current.Secrets
			after := plaintext(&seen)
			if len(current) > 2 || len(current) == 0 {
				rt.Fatalf("there are %d secrets", len(current))
			}
			if !verifiesAny(stillValid(current, at), after) {
				rt.Fatal("what the consumer Secret holds is not valid")
			}
			if after != before && !deleted {
				if !verifiesAny(acknowledged, after) {
					rt.Fatal("the consumer Secret holds what no token server has acknowledged")
				}
				promised[before] = at.Add(time.Hour)
			}
			for secret, until := range promised {
				if at.Before(until) && !verifiesAny(stillValid(current, at), secret) {
					rt.Fatalf("a replaced secret ended at %s, before %s", at, until)
				}
			}
		}
	})
}

// A consumer Secret that the cache shows with the secret before is no proof that nobody has the new one.
func TestNewestHandedOut(t *testing.T) {
	seen := seenAt(rotating)
	look(t, &seen, now)
	if !secrets.Look(secretFacts(&seen), now).Conclusive() {
		t.Error("the one secret counts as not handed out")
	}
	stale := seen.credentials
	look(t, &seen, now.Add(10*time.Hour))
	if !secrets.Look(secretFacts(&seen), now).Conclusive() {
		t.Error("that the new secret is yet to be handed out is not known")
	}
	seen.state = acknowledgement.Acknowledged
	look(t, &seen, now.Add(10*time.Hour))
	if !secrets.Look(secretFacts(&seen), now).Conclusive() {
		t.Error("the new secret counts as not handed out")
	}
	for name, consumer := range map[string]*corev1.Secret{"stale": stale, "none": nil} {
		if seen.credentials = consumer; secrets.Look(secretFacts(&seen), now).Conclusive() {
			t.Errorf("with a consumer Secret that is %s the new secret counts as handed out", name)
		}
	}
}
