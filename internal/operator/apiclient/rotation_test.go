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

// withRotation rotates the secret every ten hours, with an overlap of one hour.
func withRotation(seen *observed) {
	seen.client.Spec.Secret = &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{
		Rotation: v1alpha1.SecretRotation{Interval: hours(10), Overlap: hours(1)},
	}}
}

func hours(n int) *v1alpha1.Duration {
	return &v1alpha1.Duration{Duration: time.Duration(n) * time.Hour}
}

// step decides at the given time and updates seen as if the decision had been written.
func step(t *testing.T, seen *observed, at time.Time) decision {
	t.Helper()
	hashProvided(t, seen)
	d, err := decide(*seen, instance(), at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	*seen = afterWrite(t, *seen, d)
	seen.pending = d.plan.Pending
	if d.credentials != nil && d.plan.Deliver == d.plan.Pending {
		seen.pending = ""
	}
	return d
}

// A rotation takes one step at a time. After each step, the secret that workloads use is valid.
func TestRotation(t *testing.T) {
	seen := observe(withRotation)
	step(t, &seen, now)
	old := deliveredSecret(&seen)
	due := now.Add(10 * time.Hour)

	d := step(t, &seen, due.Add(-time.Second))
	if len(d.record.Secrets) != 1 || !d.plan.Next.Equal(due) {
		t.Fatalf("before the rotation is due: %d secrets, next rotation at %s", len(d.record.Secrets), d.plan.Next)
	}

	d = step(t, &seen, due)
	created := d.record.Secrets[len(d.record.Secrets)-1].CreatedAt
	if d.plan.Step != secrets.StepBegun || len(d.record.Secrets) != 2 || deliveredSecret(&seen) != old || !d.secretsOnly {
		t.Fatalf("when the rotation is due: %+v", d.plan)
	}
	for _, state := range []acknowledgement.State{acknowledgement.Waiting, acknowledgement.NoServer} {
		seen.state = state
		if d = step(t, &seen, due.Add(time.Hour)); deliveredSecret(&seen) != old || len(d.record.Secrets) != 2 || d.plan.Step != "" {
			t.Fatalf("in acknowledgement state %d the credentials Secret or the record changes: %+v", state, d.plan)
		}
	}

	seen.state = acknowledgement.Acknowledged
	delivered := due.Add(2 * time.Hour)
	d = step(t, &seen, delivered)
	fresh := deliveredSecret(&seen)
	if fresh == old || !verifies(d.record.Secrets, old) || !verifies(d.record.Secrets, fresh) {
		t.Fatal("after the acknowledgement the new secret is not delivered, or one of the two is not valid")
	}

	d = step(t, &seen, delivered.Add(time.Second))
	ends := delivered.Add(time.Hour + time.Second)
	if d.plan.Step != secrets.StepCompleted || !d.record.Secrets[0].ExpiresAt.Equal(ends) || !d.secretsOnly {
		t.Fatalf("the old secret does not expire at %s: %+v", ends, d.plan)
	}
	if d = step(t, &seen, ends.Add(-time.Second)); len(d.record.Secrets) != 2 || d.plan.Step != "" {
		t.Fatalf("before the old secret expires: %+v", d.plan)
	}
	d = step(t, &seen, ends)
	want := secrets.Plan{Secrets: []record.ClientSecret{{ID: d.record.Secrets[0].ID, CreatedAt: created, Hash: d.record.Secrets[0].Hash, Successor: true}}, Deliver: fresh, Continuous: true, Next: created.Add(10 * time.Hour)}
	if diff := cmp.Diff(want, d.plan); diff != "" || verifies(d.record.Secrets, old) {
		t.Errorf("when the old secret expires (-want +got):\n%s", diff)
	}
}

// The status reports the last rotation even if it could not be written at the time and the old
// secret has expired since.
func TestStatusReportsLastRotationLate(t *testing.T) {
	seen := observe(withRotation)
	seen.state = acknowledgement.Acknowledged
	step(t, &seen, now)
	due := now.Add(10 * time.Hour)
	d := step(t, &seen, due)
	if got := status(seen, d, applied{recorded: true}, instance(), due).LastRotationTime; got != nil {
		t.Errorf("before the delivery the last rotation was at %s", got)
	}
	for range 2 {
		step(t, &seen, due)
	}
	late := due.Add(5 * time.Hour)
	for range 2 {
		d = step(t, &seen, late)
		if got := status(seen, d, applied{recorded: true}, instance(), late).LastRotationTime; got == nil || !got.Time.Equal(due) {
			t.Errorf("last rotation at %v, want %s", got, due)
		}
	}
}

// No interruption of a rotation leaves the client without a valid secret.
func TestRotationIsInterrupted(t *testing.T) {
	due := now.Add(10 * time.Hour)
	for name, test := range map[string]struct {
		interrupt func(*observed)
		wantStep  secrets.Step
		wantOld   bool // the old secret is valid afterwards
		wantNew   bool // the secret generated before the interruption is valid afterwards
	}{
		"nothing":                  {func(*observed) {}, "", true, true},
		"operator killed":          {func(s *observed) { s.pending = "" }, secrets.StepLost, true, false},
		"rotation removed":         {func(s *observed) { s.client.Spec.Secret.Generated.Rotation = v1alpha1.SecretRotation{} }, "", true, true},
		"killed and removed":       {func(s *observed) { s.client.Spec.Secret.Generated.Rotation, s.pending = v1alpha1.SecretRotation{}, "" }, secrets.StepLost, true, false},
		"credentials deleted":      {func(s *observed) { s.credentials = nil }, "", false, true},
		"deleted, operator killed": {func(s *observed) { s.credentials, s.pending = nil, "" }, "", false, false},
		"realm recreated":          {func(s *observed) { s.realm.UID = "r2"; s.read(nil) }, "", false, false},
		"CA deleted":               {func(s *observed) { s.authority, s.authorityMissing = nil, true }, "", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observe(withRotation)
			step(t, &seen, now)
			old := deliveredSecret(&seen)
			step(t, &seen, due)
			made := seen.pending
			test.interrupt(&seen)
			d := step(t, &seen, due.Add(time.Minute))
			if d.plan.Step != test.wantStep || verifies(d.record.Secrets, old) != test.wantOld || verifies(d.record.Secrets, made) != test.wantNew {
				t.Errorf("step %q, old secret valid: %t, new secret valid: %t; want %+v", d.plan.Step, verifies(d.record.Secrets, old), verifies(d.record.Secrets, made), test)
			}
			if deliveredSecret(&seen) == "" {
				t.Error("the credentials Secret has no valid secret")
			}
		})
	}
}

// A rotation requested during an overlap begins when the overlap ends.
func TestRotationWaitsForTheOverlap(t *testing.T) {
	seen := observe(withRotation)
	seen.state = acknowledgement.Acknowledged
	step(t, &seen, now)
	due := now.Add(10 * time.Hour)
	for range 3 {
		step(t, &seen, due)
	}
	if len(seen.current.Secrets) != 2 || seen.current.Secrets[0].ExpiresAt.IsZero() {
		t.Fatalf("no overlap: %+v", seen.current.Secrets)
	}
	ends := seen.current.Secrets[0].ExpiresAt
	seen.client.Spec.Secret.Generated.Rotation.RotateAfter = &metav1.Time{Time: due.Add(time.Minute)}
	if d := step(t, &seen, due.Add(2*time.Minute)); d.plan.Step != "" || !d.plan.Next.Equal(ends) {
		t.Errorf("during the overlap: %+v, want no rotation before %s", d.plan, ends)
	}
	if d := step(t, &seen, ends); d.plan.Step != secrets.StepBegun || len(d.record.Secrets) != 2 {
		t.Errorf("when the overlap ends: %+v, want a rotation", d.plan)
	}
}

// For any sequence of events, there are at most two secrets, the credentials Secret has a valid
// secret that was acknowledged before its delivery, and a replaced secret stays valid for the
// overlap.
func TestRotationInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seen := observe(withRotation)
		at := now
		step(t, &seen, at)
		acknowledged := slices.Clone(seen.current.Secrets) // secrets that every token server accepts
		overlaps := map[string]time.Time{}                 // end of the overlap by replaced secret
		for range rapid.IntRange(1, 60).Draw(rt, "events") {
			before, deleted := deliveredSecret(&seen), false
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
				clear(overlaps)
			case "rotate":
				seen.client.Spec.Secret.Generated.Rotation.RotateAfter = &metav1.Time{Time: at}
			}
			recorded := seen.record
			step(t, &seen, at)
			if !bytes.Equal(recorded.Data[record.DataKey], seen.record.Data[record.DataKey]) {
				seen.state = acknowledgement.Waiting
			}
			current := seen.current.Secrets
			after := deliveredSecret(&seen)
			if len(current) > 2 || len(current) == 0 {
				rt.Fatalf("%d secrets", len(current))
			}
			if !verifies(unexpired(current, at), after) {
				rt.Fatal("the credentials Secret has no valid secret")
			}
			if after != before && !deleted {
				if !verifies(acknowledged, after) {
					rt.Fatal("a secret was delivered before it was acknowledged")
				}
				overlaps[before] = at.Add(time.Hour)
			}
			for secret, until := range overlaps {
				if at.Before(until) && !verifies(unexpired(current, at), secret) {
					rt.Fatalf("a replaced secret expired at %s, before %s", at, until)
				}
			}
		}
	})
}

// Even if the cached credentials Secret contains the old secret, the new one may have been
// delivered.
func TestCachedCredentialsAreConclusive(t *testing.T) {
	seen := observe(withRotation)
	step(t, &seen, now)
	if !secrets.Look(secretFacts(&seen), now).Conclusive() {
		t.Error("the delivered secret is not conclusive")
	}
	stale := seen.credentials
	step(t, &seen, now.Add(10*time.Hour))
	if !secrets.Look(secretFacts(&seen), now).Conclusive() {
		t.Error("the old secret alongside a pending one is not conclusive")
	}
	seen.state = acknowledgement.Acknowledged
	step(t, &seen, now.Add(10*time.Hour))
	if !secrets.Look(secretFacts(&seen), now).Conclusive() {
		t.Error("the new secret is not conclusive")
	}
	for name, cached := range map[string]*corev1.Secret{"stale": stale, "missing": nil} {
		if seen.credentials = cached; secrets.Look(secretFacts(&seen), now).Conclusive() {
			t.Errorf("a %s credentials Secret is conclusive", name)
		}
	}
}
