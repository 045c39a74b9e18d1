package apiclient

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
)

// endingWhenUnused rotates the secret every 100 hours. The old one ends after a day without use, and
// after 50 hours in any case.
func endingWhenUnused(seen *observed) {
	seen.acknowledged = true
	seen.client.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{Rotation: v1beta1.SecretRotation{
		Interval: hours(100), ExpireWhenUnused: &v1beta1.ExpireWhenUnused{After: hours(24), Max: hours(50)},
	}}}
}

// replacedSecret returns a client whose new secret was delivered at the returned time, and its old secret.
func replacedSecret(t *testing.T) (seen observed, old record.ClientSecret, delivered time.Time) {
	t.Helper()
	seen = observe(endingWhenUnused)
	step(t, &seen, now)
	delivered = now.Add(100 * time.Hour)
	for range 3 {
		step(t, &seen, delivered)
	}
	if len(seen.recorded.Secrets) != 2 || seen.recorded.Secrets[0].ReplacedAt.IsZero() {
		t.Fatalf("the secret was not replaced: %+v", seen.recorded.Secrets)
	}
	return seen, seen.recorded.Secrets[0], seen.recorded.Secrets[0].ReplacedAt
}

func TestUnusedSecretEnds(t *testing.T) {
	seen, old, delivered := replacedSecret(t)
	if want := delivered.Add(50 * time.Hour); !old.ExpiresAt.Equal(want) {
		t.Errorf("the old secret expires at %s, want %s", old.ExpiresAt, want)
	}
	unused := func(d time.Duration) { seen.uses = map[string]secrets.Use{old.ID: {Until: delivered.Add(d)}} }

	unused(time.Hour)
	at := delivered.Add(2 * time.Hour)
	d := step(t, &seen, at)
	if want := at.Add(23 * time.Hour); len(d.desired.Secrets) != 2 || !d.check.Equal(want) || requeueAfter(&seen, d) != 23*time.Hour {
		t.Fatalf("%d secrets, next check at %s; want 2 and %s", len(d.desired.Secrets), d.check, want)
	}
	seen.uses = nil
	if d = step(t, &seen, at); len(d.desired.Secrets) != 2 || !d.check.Equal(at.Add(time.Minute)) {
		t.Fatalf("without reports: %d secrets, next check at %s", len(d.desired.Secrets), d.check)
	}
	unused(25 * time.Hour)
	seen.unconfirmed = true
	at = delivered.Add(25 * time.Hour)
	d = step(t, &seen, at)
	if result := meta.FindStatusCondition(status(&seen, d, outcome{written: true}).Conditions, string(v1beta1.ConditionOldSecretInUse)); len(d.desired.Secrets) != 2 || result != nil || requeueAfter(&seen, d) != confirmDelay {
		t.Fatalf("unconfirmed: %d secrets, condition %v, next check %s", len(d.desired.Secrets), result, requeueAfter(&seen, d))
	}
	seen.unconfirmed, seen.confirmed = false, false
	if d = step(t, &seen, at); len(d.desired.Secrets) != 1 || d.desired.Secrets[0].ID == old.ID || !d.check.IsZero() {
		t.Fatalf("after a day without use: %+v", d.plan)
	}
	if got := d.plan.NextRotation; !got.Equal(now.Add(200 * time.Hour)) {
		t.Errorf("next rotation at %s", got)
	}
}

// stubUses is a useReader with fixed responses.
type stubUses struct {
	cached, live secrets.Use
	unknown      bool // to the cache
	liveUnknown  bool
	err          error
}

func (s *stubUses) Quiet(types.UID, usage.Credential, time.Time) (since, until time.Time, ok bool) {
	return s.cached.Last, s.cached.Until, !s.unknown
}

func (s *stubUses) Confirm(context.Context, client.Reader, *v1beta1.ApiClient, usage.Credential) (since, until time.Time, ok bool, err error) {
	return s.live.Last, s.live.Until, !s.liveUnknown, s.err
}

var errUnavailable = errors.New("unavailable")

func TestCachesAloneDoNotEndASecret(t *testing.T) {
	_, _, delivered := replacedSecret(t)
	used, unused := secrets.Use{Last: delivered.Add(time.Hour), Until: delivered.Add(24 * time.Hour)}, secrets.Use{Until: delivered.Add(24 * time.Hour)}
	for name, test := range map[string]struct {
		stub          stubUses
		unlisted      bool // in the status
		wantConfirmed bool
		wantEnded     bool
		wantErr       error
	}{
		"used according to the cache":  {stub: stubUses{cached: used, live: unused}},
		"unused according to both":     {stub: stubUses{cached: unused, live: unused}, wantConfirmed: true, wantEnded: true},
		"the cache is old":             {stub: stubUses{cached: unused, live: used}, wantConfirmed: true},
		"not known to the cache":       {stub: stubUses{unknown: true, cached: unused, live: unused}},
		"not known to the API server":  {stub: stubUses{cached: unused, live: unused, liveUnknown: true}, wantConfirmed: true},
		"not in the status":            {stub: stubUses{cached: unused, live: unused}, unlisted: true},
		"the API server does not work": {stub: stubUses{cached: unused, live: unused, err: errUnavailable}, wantConfirmed: true, wantErr: errUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			seen, old, _ := replacedSecret(t)
			if !test.unlisted {
				seen.client.Status.Credentials = []v1beta1.CredentialStatus{{Type: v1beta1.CredentialTypeSecret, Name: old.ID}}
			}
			at := delivered.Add(24 * time.Hour)
			readUses(&test.stub, &seen)
			d := testkit.Value(decide(&seen, at, rand.Reader))(t)
			if (d.lacks == lacksUses) != test.wantConfirmed {
				t.Fatalf("the decision lacks %b; want the API server's confirmation: %t", d.lacks, test.wantConfirmed)
			}
			if d.lacks == lacksUses {
				if err := confirmUses(t.Context(), &test.stub, nil, &seen); !errors.Is(err, test.wantErr) {
					t.Fatalf("error %v, want %v", err, test.wantErr)
				} else if err != nil {
					return
				}
			}
			seen.confirmed = true
			if d = testkit.Value(decide(&seen, at, rand.Reader))(t); d.lacks != 0 || (len(d.desired.Secrets) == 1) != test.wantEnded {
				t.Errorf("lacks %b, %d secrets; want the old one ended: %t", d.lacks, len(d.desired.Secrets), test.wantEnded)
			}
		})
	}
}

func TestUnusedFor(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*observed)
		want   time.Duration
	}{
		"as requested":                       {func(*observed) {}, 24 * time.Hour},
		"an overlap":                         {func(s *observed) { s.client.Spec.Secret.Generated.Rotation.ExpireWhenUnused = nil }, 0},
		"shorter than the default lifetime":  {after(hours(2)), 3 * time.Hour},
		"shorter than the client's lifetime": {after(hours(2), func(s *observed) { s.realm.Spec.TokenLifetime, s.client.Spec.TokenLifetime = hours(5), hours(4) }), 6 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observe(endingWhenUnused, test.change)
			if got := unusedFor(&seen.request); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func after(d *v1beta1.Duration, more ...func(*observed)) func(*observed) {
	return func(s *observed) {
		s.client.Spec.Secret.Generated.Rotation.ExpireWhenUnused.After = d
		for _, change := range more {
			change(s)
		}
	}
}

func TestOldSecretInUse(t *testing.T) {
	const incomplete = `Secret OLD was replaced at 2026-03-05T16:00:00Z. Since then, uses of it may be missing in the reports of the token servers, for example because one was killed, or because none is running. ` +
		`It therefore expires later than it would otherwise, at the latest at 2026-03-07T18:00:00Z.`
	inUse := metav1.Condition{
		Type: "OldSecretInUse", Status: "True", Reason: "OldSecretUsed", ObservedGeneration: 2,
		Message: `Secret OLD was replaced at 2026-03-05T16:00:00Z, but a workload used it at or after 2026-03-05T17:00:00Z. Make all workloads load the new secret from Secret "billing". ` +
			`The old one expires when it has been unused for spec.secret.generated.rotation.expireWhenUnused.after, at the latest at 2026-03-07T18:00:00Z.`,
	}
	unknown := metav1.Condition{Type: "OldSecretInUse", Status: "Unknown", Reason: "UsageIncomplete", ObservedGeneration: 2, Message: incomplete}
	_, _, delivered := replacedSecret(t)
	at := delivered.Add(2 * time.Hour)
	for name, test := range map[string]struct {
		used     time.Time // in the status
		reported time.Time
		use      *secrets.Use
		before   *metav1.Condition
		change   func(*observed)
		want     *metav1.Condition
	}{
		"used in the same hour":    {used: delivered.Add(-time.Minute), use: &secrets.Use{Last: delivered.Add(59 * time.Minute), Until: at}},
		"used after it":            {used: delivered.Add(time.Hour), use: &secrets.Use{Last: at, Until: at}, want: &inUse},
		"the use is not shown yet": {used: delivered.Add(-time.Hour), reported: delivered.Add(time.Hour), use: &secrets.Use{Last: at, Until: at}, want: &inUse},
		"uses were lost":           {use: &secrets.Use{Last: delivered.Add(time.Second), Until: at}, want: &unknown},
		"used, and uses were lost": {used: delivered.Add(-time.Hour), use: &secrets.Use{Last: delivered.Add(time.Hour), Until: at}, want: &unknown},
		"reports are late":         {use: &secrets.Use{Until: at.Add(-reportDelay - 1)}, want: &unknown},
		"reports are on their way": {use: &secrets.Use{Until: at.Add(-reportDelay)}},
		"no token server":          {want: &unknown},
		"an overlap":               {used: delivered.Add(time.Hour), change: func(s *observed) { s.client.Spec.Secret.Generated.Rotation.ExpireWhenUnused = nil }},
		"the secret ends":          {used: delivered.Add(-time.Hour), use: &secrets.Use{Until: delivered.Add(24 * time.Hour)}, before: &inUse},
	} {
		t.Run(name, func(t *testing.T) {
			seen, old, again := replacedSecret(t)
			if !again.Equal(delivered) {
				t.Fatal("the time differs")
			}
			if test.change != nil {
				test.change(&seen)
			}
			if test.use != nil {
				seen.uses = map[string]secrets.Use{old.ID: *test.use}
			}
			seen.client.Status.Credentials = []v1beta1.CredentialStatus{{Type: v1beta1.CredentialTypeSecret, Name: old.ID, LastUsedTime: timeOrNil(test.used)}, {Type: v1beta1.CredentialTypeSecret, Name: seen.recorded.Secrets[1].ID}}
			if test.before != nil {
				seen.client.Status.Conditions = []metav1.Condition{*test.before}
			}
			if !test.reported.IsZero() {
				seen.reported = lastuse.Uses{{Type: usage.Secret, ID: old.ID}: test.reported}
			}
			d := step(t, &seen, at)
			s := status(&seen, d, outcome{written: true, state: new(acknowledgement.Acknowledged)})
			got := meta.FindStatusCondition(s.Conditions, "OldSecretInUse")
			if got != nil {
				got.Message = strings.ReplaceAll(got.Message, old.ID, "OLD")
			}
			testkit.Diff(t, "condition", test.want, got, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime"))
		})
	}
}
