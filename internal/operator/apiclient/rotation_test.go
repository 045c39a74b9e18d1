package apiclient

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// withRotation rotates the secret every ten hours, with an overlap of one hour.
func withRotation(seen *observed) {
	seen.client.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{
		Rotation: v1beta1.SecretRotation{Interval: hours(10), Overlap: hours(1)},
	}}
}

func hours(n int) *v1beta1.Duration {
	return &v1beta1.Duration{Duration: time.Duration(n) * time.Hour}
}

// step decides at the given time until no step follows, and updates seen as if all decisions had been
// written.
func step(t *testing.T, seen *observed, at time.Time) decision {
	t.Helper()
	hashProvided(t, seen)
	before, d := settled(t, *seen, at)
	*seen = afterWrite(t, before, d)
	return d
}

// nextSecret returns the value that the credentials Secret contains for the next rotation.
func nextSecret(seen *observed) string {
	if found := ownCredentials(seen); found != nil {
		return found.Next.Plaintext
	}
	return ""
}

// After each part of a rotation, the secret that workloads use is valid.
func TestRotation(t *testing.T) {
	seen := observe(withRotation)
	step(t, &seen, now)
	old := deliveredSecret(&seen)
	due := now.Add(10 * time.Hour)

	d := step(t, &seen, due.Add(-time.Second))
	if len(d.desired.Secrets) != 1 || !d.plan.NextRotation.Equal(due) {
		t.Fatalf("before the rotation is due: %d secrets, next rotation at %s", len(d.desired.Secrets), d.plan.NextRotation)
	}
	for _, at := range []time.Time{due, due.Add(time.Hour)} {
		d = step(t, &seen, at)
		next := nextSecret(&seen)
		if deliveredSecret(&seen) != old || next == "" || !verifies(d.desired.Secrets, next) || len(d.desired.Secrets) != 2 {
			t.Fatalf("until token servers accept the next secret: %+v", d.plan)
		}
	}
	next := nextSecret(&seen)

	seen.acknowledged = true
	delivered := due.Add(2 * time.Hour)
	d = step(t, &seen, delivered)
	if deliveredSecret(&seen) != next || nextSecret(&seen) != "" || !verifies(d.desired.Secrets, old) || !verifies(d.desired.Secrets, next) {
		t.Fatal("after the acknowledgement the next secret is not delivered, or one of the two is not valid")
	}
	ends := delivered.Add(time.Hour)
	if !d.desired.Secrets[0].ExpiresAt.Equal(ends) {
		t.Fatalf("the old secret does not expire at %s: %+v", ends, d.plan)
	}
	if d = step(t, &seen, ends.Add(-time.Second)); len(d.desired.Secrets) != 2 || d.plan.Step != "" {
		t.Fatalf("before the old secret expires: %+v", d.plan)
	}
	d = step(t, &seen, ends)
	if len(d.desired.Secrets) != 1 || verifies(d.desired.Secrets, old) || !d.desired.Secrets[0].Successor || d.plan.NextRotation.IsZero() {
		t.Errorf("when the old secret expires: %+v", d.plan)
	}
}

// A rotation doesn't change what the token servers must serve for the client to be Programmed.
func TestRotationKeepsContentRevision(t *testing.T) {
	seen := observe(withRotation)
	step(t, &seen, now)
	revision := seen.recordSecret.ResourceVersion
	seen.acknowledged = true
	for _, at := range []time.Duration{10 * time.Hour, 10 * time.Hour, 12 * time.Hour} {
		step(t, &seen, now.Add(at))
		if seen.recordSecret.ResourceVersion == revision || seen.recorded.Basis.ContentVersion != revision {
			t.Fatalf("after %s: revision %s with content of revision %q, want %s", at, seen.recordSecret.ResourceVersion, seen.recorded.Basis.ContentVersion, revision)
		}
	}
	seen.client.Spec.Suspend = true
	if step(t, &seen, now.Add(12*time.Hour)); seen.recorded.Basis.ContentVersion != "" {
		t.Errorf("a suspended client has content of revision %s", seen.recorded.Basis.ContentVersion)
	}
}

// No interruption of a rotation leaves the client without a valid secret. Deleting or overwriting the
// Secret revokes both values.
func TestRotationIsInterrupted(t *testing.T) {
	due := now.Add(10 * time.Hour)
	for name, test := range map[string]struct {
		interrupt func(*observed)
		wantOld   bool // the old secret is valid afterwards
		wantNext  bool // the next secret is valid afterwards
	}{
		"nothing":              {func(*observed) {}, true, true},
		"rotation removed":     {func(s *observed) { s.client.Spec.Secret.Generated.Rotation = v1beta1.SecretRotation{} }, true, true},
		"next value removed":   {func(s *observed) { delete(s.credentials.Data, "next_client_secret") }, true, false},
		"credentials deleted":  {func(s *observed) { s.credentials = nil }, false, false},
		"current overwritten":  {func(s *observed) { s.credentials.Data["client_secret"] = []byte("guessable") }, false, false},
		"realm recreated":      {func(s *observed) { s.realm.UID = "r2"; s.setRecord(nil) }, false, false},
		"CA deleted":           {func(s *observed) { s.caBundle, s.caMissing = nil, true }, true, true},
		"the record is lost":   {func(s *observed) { s.setRecord(nil) }, true, true},
		"Secret not writable":  {func(s *observed) { s.credentialsErr = errUnavailable }, true, true},
		"another key for both": {func(s *observed) { rename(s) }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observe(withRotation)
			step(t, &seen, now)
			old := deliveredSecret(&seen)
			step(t, &seen, due)
			next := nextSecret(&seen)
			test.interrupt(&seen)
			for range 2 {
				step(t, &seen, due.Add(time.Minute))
			}
			current := seen.recorded.Secrets
			if verifies(current, old) != test.wantOld || verifies(current, next) != test.wantNext {
				t.Errorf("old secret valid: %t, next secret valid: %t; want %t, %t", verifies(current, old), verifies(current, next), test.wantOld, test.wantNext)
			}
			if !verifies(current, deliveredSecret(&seen)) && seen.credentials != nil && seen.credentialsErr == nil {
				t.Error("the credentials Secret has no valid secret")
			}
		})
	}
}

// A rotation requested during an overlap begins when the overlap ends.
func TestRotationWaitsForTheOverlap(t *testing.T) {
	seen := observe(withRotation)
	step(t, &seen, now)
	due := now.Add(10 * time.Hour)
	step(t, &seen, due)
	seen.acknowledged = true
	step(t, &seen, due)
	if len(seen.recorded.Secrets) != 2 || seen.recorded.Secrets[0].ExpiresAt.IsZero() {
		t.Fatalf("no overlap: %+v", seen.recorded.Secrets)
	}
	ends := seen.recorded.Secrets[0].ExpiresAt
	seen.client.Spec.Secret.Generated.Rotation.RotationRequestTime = &metav1.Time{Time: due.Add(time.Minute)}
	if d := step(t, &seen, due.Add(2*time.Minute)); nextSecret(&seen) != "" || !d.plan.NextRotation.Equal(ends) {
		t.Errorf("during the overlap: %+v, want no rotation before %s", d.plan, ends)
	}
	seen.acknowledged = false
	if d := step(t, &seen, ends); nextSecret(&seen) == "" || len(d.desired.Secrets) != 2 {
		t.Errorf("when the overlap ends: %+v, want a rotation", d.plan)
	}
}

// The status reports the last rotation even if it could not be written at the time and the old
// secret has expired since.
func TestStatusReportsLastRotationLate(t *testing.T) {
	seen := observe(withRotation)
	step(t, &seen, now)
	due := now.Add(10 * time.Hour)
	d := step(t, &seen, due)
	if got := status(&seen, d, outcome{written: true}).LastRotationTime; got != nil {
		t.Errorf("before the delivery the last rotation was at %s", got)
	}
	seen.acknowledged = true
	step(t, &seen, due)
	late := due.Add(5 * time.Hour)
	for range 2 {
		d = step(t, &seen, late)
		if got := status(&seen, d, outcome{written: true}).LastRotationTime; got == nil || !got.Time.Equal(due) {
			t.Errorf("last rotation at %v, want %s", got, due)
		}
	}
}
