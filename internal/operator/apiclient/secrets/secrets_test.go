package secrets_test

import (
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// noRandom makes every plan that generates or hashes a secret fail with errRandom.
var (
	errRandom = errors.New("no random bytes")
	noRandom  = iotest.ErrReader(errRandom)
)

// secret is a recorded secret together with its plaintext.
type secret struct {
	record.ClientSecret

	plaintext string
}

// newSecret returns a generated secret that was created at the given time.
func newSecret(t *testing.T, created time.Time) secret {
	t.Helper()
	plaintext, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := clientsecret.Hash(plaintext, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return secret{record.ClientSecret{ID: verifier.ID(), CreatedAt: created, Hash: verifier.String()}, plaintext}
}

func (s secret) from(source string) record.ClientSecret {
	s.Source = source
	return s.ClientSecret
}

func (s secret) until(expires time.Time) record.ClientSecret {
	s.ExpiresAt = expires
	return s.ClientSecret
}

// accepts reports whether any of the secrets is valid and matches the plaintext.
func accepts(recorded []record.ClientSecret, plaintext string, at time.Time) bool {
	return slices.ContainsFunc(recorded, func(s record.ClientSecret) bool {
		verifier, err := clientsecret.ParseVerifier(s.Hash)
		return err == nil && (s.ExpiresAt.IsZero() || at.Before(s.ExpiresAt)) && verifier.Verify(plaintext)
	})
}

func TestLook(t *testing.T) {
	older, newer := newSecret(t, now.Add(-time.Hour)), newSecret(t, now)
	both := []record.ClientSecret{older.ClientSecret, newer.ClientSecret}
	for name, test := range map[string]struct {
		facts          secrets.Facts
		want           secrets.State
		wantActive     int
		wantConclusive bool
	}{
		"nothing":                       {secrets.Facts{}, secrets.None, -1, false},
		"not delivered":                 {secrets.Facts{Recorded: both[1:]}, secrets.None, -1, false},
		"not delivered, pending":        {secrets.Facts{Recorded: both[1:], Pending: newer.plaintext}, secrets.None, -1, false},
		"delivered, not recorded":       {secrets.Facts{Delivered: []string{older.plaintext}}, secrets.None, -1, false},
		"delivered":                     {secrets.Facts{Recorded: both[1:], Delivered: []string{newer.plaintext}}, secrets.Settled, 0, true},
		"expired":                       {secrets.Facts{Recorded: []record.ClientSecret{newer.until(now)}, Delivered: []string{newer.plaintext}}, secrets.None, -1, false},
		"newest pending":                {secrets.Facts{Recorded: both, Delivered: []string{older.plaintext}, Pending: newer.plaintext}, secrets.Announced, 0, true},
		"newest delivered, and pending": {secrets.Facts{Recorded: both, Delivered: []string{newer.plaintext}, Pending: newer.plaintext}, secrets.Overlapping, 1, true},
		"newest lost":                   {secrets.Facts{Recorded: both, Delivered: []string{older.plaintext}}, secrets.Lost, 0, false},
		"newest lost, new one pending":  {secrets.Facts{Recorded: both, Delivered: []string{older.plaintext}, Pending: older.plaintext}, secrets.Lost, 0, false},
		"both delivered":                {secrets.Facts{Recorded: both, Delivered: []string{newer.plaintext, older.plaintext}}, secrets.Overlapping, 1, true},
		"both delivered, older first":   {secrets.Facts{Recorded: both, Delivered: []string{older.plaintext, newer.plaintext}}, secrets.Overlapping, 1, true},
		"provided": {
			secrets.Facts{Recorded: []record.ClientSecret{newer.from("v1/1")}}, secrets.Settled, 0, false,
		},
		"generated before, then provided": {
			secrets.Facts{Recorded: []record.ClientSecret{older.until(now.Add(time.Hour)), newer.from("v1/1")}, Delivered: []string{older.plaintext}}, secrets.Overlapping, 1, false,
		},
		"provided before, newest pending": {
			secrets.Facts{Recorded: []record.ClientSecret{older.from("v1/1"), newer.ClientSecret}, Pending: newer.plaintext}, secrets.Announced, 0, false,
		},
		"provided before, newest lost": {
			secrets.Facts{Recorded: []record.ClientSecret{older.from("v1/1"), newer.ClientSecret}}, secrets.Lost, 0, false,
		},
		"provided before, newest delivered": {
			secrets.Facts{Recorded: []record.ClientSecret{older.from("v1/1"), newer.ClientSecret}, Delivered: []string{newer.plaintext}}, secrets.Overlapping, 1, true,
		},
		"hashed, the older expires last": {
			secrets.Facts{Recorded: []record.ClientSecret{older.from("spec"), {Hash: newer.Hash, Source: "spec", ExpiresAt: now.Add(time.Hour)}}}, secrets.Overlapping, 0, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := secrets.Look(test.facts, now)
			if got.State != test.want || got.Active != test.wantActive || got.Conclusive() != test.wantConclusive {
				t.Errorf("state %s, active %d, conclusive %t; want %s, %d, %t", got.State, got.Active, got.Conclusive(), test.want, test.wantActive, test.wantConclusive)
			}
		})
	}
}

// The table covers every state of a client with a generated secret.
func TestMakeGenerated(t *testing.T) {
	older, newer := newSecret(t, now.Add(-time.Hour)), newSecret(t, now)
	both := []record.ClientSecret{older.ClientSecret, newer.ClientSecret}
	expires := now.Add(2 * time.Hour)
	retired := []record.ClientSecret{older.until(expires), newer.ClientSecret}
	retired[1].Successor = true
	week := secrets.Schedule{Interval: 7 * 24 * time.Hour, Overlap: 2 * time.Hour}
	nextWeek := now.Add(7 * 24 * time.Hour)
	for name, test := range map[string]struct {
		facts secrets.Facts
		want  secrets.Plan
	}{
		"first delivery failed": {
			secrets.Facts{Recorded: both[1:], Pending: newer.plaintext},
			secrets.Plan{Secrets: both[1:], Deliver: newer.plaintext, Pending: newer.plaintext},
		},
		"settled": {
			secrets.Facts{Recorded: both[1:], Delivered: []string{newer.plaintext}},
			secrets.Plan{Secrets: both[1:], Deliver: newer.plaintext, Continuous: true, Next: nextWeek},
		},
		"announced": {
			secrets.Facts{Recorded: both, Delivered: []string{older.plaintext}, Pending: newer.plaintext},
			secrets.Plan{Secrets: both, Deliver: older.plaintext, Pending: newer.plaintext, Continuous: true},
		},
		"announced and acknowledged": {
			secrets.Facts{Recorded: both, Delivered: []string{older.plaintext}, Pending: newer.plaintext, Acknowledged: true},
			secrets.Plan{Secrets: both, Deliver: newer.plaintext, Pending: newer.plaintext, Continuous: true},
		},
		"announced alongside a provided secret": {
			secrets.Facts{Recorded: []record.ClientSecret{older.from("v1/1"), newer.ClientSecret}, Pending: newer.plaintext},
			secrets.Plan{Secrets: []record.ClientSecret{older.from("v1/1"), newer.ClientSecret}, Pending: newer.plaintext, Continuous: true},
		},
		"lost": {
			secrets.Facts{Recorded: both, Delivered: []string{older.plaintext}, Acknowledged: true},
			secrets.Plan{Secrets: both[:1], Deliver: older.plaintext, Continuous: true, Step: secrets.StepLost, Next: nextWeek.Add(-time.Hour)},
		},
		"delivered": {
			secrets.Facts{Recorded: both, Delivered: []string{newer.plaintext}, Acknowledged: true},
			secrets.Plan{Secrets: retired, Deliver: newer.plaintext, Continuous: true, Step: secrets.StepCompleted, Next: nextWeek},
		},
		"overlapping": {
			secrets.Facts{Recorded: retired, Delivered: []string{newer.plaintext}},
			secrets.Plan{Secrets: retired, Deliver: newer.plaintext, Continuous: true, Next: nextWeek},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := secrets.Make(test.facts, secrets.Want{Generated: &week}, now, noRandom)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRotationIsDue(t *testing.T) {
	for name, test := range map[string]struct {
		schedule secrets.Schedule
		want     time.Time // zero for never
	}{
		"no schedule":                     {},
		"only an overlap":                 {schedule: secrets.Schedule{Overlap: time.Hour}},
		"interval":                        {secrets.Schedule{Interval: 5 * time.Hour}, now.Add(5 * time.Hour)},
		"rotateAfter in the future":       {secrets.Schedule{RotateAfter: now.Add(time.Hour)}, now.Add(time.Hour)},
		"rotateAfter before creation":     {schedule: secrets.Schedule{RotateAfter: now.Add(-time.Hour)}},
		"rotateAfter at creation":         {schedule: secrets.Schedule{RotateAfter: now}},
		"rotateAfter in the same second":  {schedule: secrets.Schedule{RotateAfter: now.Add(999 * time.Millisecond)}},
		"rotateAfter in the next second":  {secrets.Schedule{RotateAfter: now.Add(1500 * time.Millisecond)}, now.Add(time.Second)},
		"rotateAfter before the interval": {secrets.Schedule{Interval: 5 * time.Hour, RotateAfter: now.Add(time.Hour)}, now.Add(time.Hour)},
		"rotateAfter after the interval":  {secrets.Schedule{Interval: 5 * time.Hour, RotateAfter: now.Add(9 * time.Hour)}, now.Add(5 * time.Hour)},
		"an old rotateAfter and interval": {secrets.Schedule{Interval: 5 * time.Hour, RotateAfter: now.Add(-9 * time.Hour)}, now.Add(5 * time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			current := newSecret(t, now)
			f := secrets.Facts{Recorded: []record.ClientSecret{current.ClientSecret}, Delivered: []string{current.plaintext}}
			got, err := secrets.Make(f, secrets.Want{Generated: &test.schedule}, now, noRandom)
			if err != nil || !got.Next.Equal(test.want) {
				t.Fatalf("next rotation %s, error %v; want %s", got.Next, err, test.want)
			}
			if test.want.IsZero() {
				test.want = now.Add(1000 * time.Hour)
			} else if got, err = secrets.Make(f, secrets.Want{Generated: &test.schedule}, test.want, rand.Reader); err != nil || got.Step != secrets.StepBegun || len(got.Secrets) != 2 {
				t.Errorf("when it is due: %+v, error %v", got, err)
			}
			if _, err = secrets.Make(f, secrets.Want{Generated: &test.schedule}, test.want.Add(-time.Nanosecond), noRandom); err != nil {
				t.Errorf("before it is due: %v", err)
			}
		})
	}
}

// A secret with an expiration is replaced even if it is the only one, for example because a user
// restored an old credentials Secret.
func TestExpiringSecretIsReplaced(t *testing.T) {
	restored := newSecret(t, now.Add(-time.Hour))
	f := secrets.Facts{Recorded: []record.ClientSecret{restored.until(now.Add(time.Minute))}, Delivered: []string{restored.plaintext}}
	got, err := secrets.Make(f, secrets.Want{Generated: &secrets.Schedule{}}, now, rand.Reader)
	if err != nil || got.Step != secrets.StepBegun || len(got.Secrets) != 2 || got.Deliver != restored.plaintext {
		t.Errorf("plan %+v, error %v", got, err)
	}
}

func TestMakeReturnsRandomSourceError(t *testing.T) {
	external := newSecret(t, now).from("v1/1")
	for name, test := range map[string]struct {
		recorded []record.ClientSecret
		want     secrets.Want
	}{
		"generated":               {nil, secrets.Want{Generated: &secrets.Schedule{}}},
		"generated, not provided": {[]record.ClientSecret{external}, secrets.Want{Generated: &secrets.Schedule{}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := secrets.Make(secrets.Facts{Recorded: test.recorded}, test.want, now, noRandom); !errors.Is(err, errRandom) {
				t.Errorf("plan %+v, error %v", got, err)
			}
		})
	}
}

func TestObsolete(t *testing.T) {
	kept, dropped, external := newSecret(t, now), newSecret(t, now), newSecret(t, now)
	p := secrets.Plan{Secrets: []record.ClientSecret{kept.ClientSecret, external.from("v1/1")}}
	for name, test := range map[string]struct {
		delivered []string
		want      bool
	}{
		"a secret of the plan":      {[]string{dropped.plaintext, kept.plaintext}, false},
		"none":                      {nil, true},
		"a secret that was dropped": {[]string{dropped.plaintext}, true},
		"the provided secret":       {[]string{external.plaintext}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := p.Obsolete(test.delivered); got != test.want {
				t.Errorf("obsolete %t, want %t", got, test.want)
			}
		})
	}
}
