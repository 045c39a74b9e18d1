package secrets_test

import (
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
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
	plaintext := testkit.Value(clientsecret.Generate(rand.Reader))(t)
	verifier := testkit.Value(clientsecret.Hash(plaintext, rand.Reader))(t)
	return secret{record.ClientSecret{ID: verifier.ID(), CreatedAt: created, Hash: verifier.String(), Role: record.RoleCurrent}, plaintext}
}

func (s secret) as(role record.SecretRole) record.ClientSecret {
	s.Role = role
	return s.ClientSecret
}

// retiring returns the verifier after the secret was replaced.
func (s secret) retiring(replaced, expires time.Time) record.ClientSecret {
	s.Role, s.ReplacedAt, s.ExpiresAt = record.RoleRetiring, replaced, expires
	return s.ClientSecret
}

// value returns the value in the credentials Secret.
func (s secret) value(serial int64) secrets.Value {
	return secrets.Value{Plaintext: s.plaintext, Serial: serial}
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

// The table covers every state of a client with a generated secret, and which write follows from it.
func TestMakeGenerated(t *testing.T) {
	old, next, fresh := newSecret(t, now.Add(-time.Hour)), newSecret(t, now.Add(-time.Minute)), newSecret(t, now)
	week := secrets.Schedule{Interval: 7 * 24 * time.Hour, Overlap: 2 * time.Hour}
	expires, nextWeek := now.Add(2*time.Hour), now.Add(-time.Hour+7*24*time.Hour)
	successor := next.ClientSecret
	successor.Successor = true
	list := func(s ...record.ClientSecret) []record.ClientSecret { return s }
	current := list(old.ClientSecret)
	rotating := list(old.ClientSecret, next.as(record.RoleNext))
	in := func(current, next secrets.Value, others ...string) *secrets.Credentials {
		return &secrets.Credentials{Current: current, Next: next, Others: others}
	}
	none := secrets.Value{}
	for name, test := range map[string]struct {
		facts secrets.Facts
		want  secrets.Plan
	}{
		"settled": {
			secrets.Facts{Recorded: current, Serial: 4, Credentials: in(old.value(4), none)},
			secrets.Plan{Secrets: current, Serial: 4, Current: old.value(4), Continuous: true, NextRotation: nextWeek},
		},
		"the mark was removed": {
			secrets.Facts{Recorded: current, Serial: 4, Credentials: in(old.value(0), none)},
			secrets.Plan{Secrets: current, Serial: 4, Current: old.value(4), Continuous: true, NextRotation: nextWeek},
		},
		"the key was renamed": {
			secrets.Facts{Recorded: current, Serial: 4, Credentials: in(none, none, old.plaintext)},
			secrets.Plan{Secrets: current, Serial: 4, Current: old.value(4), Continuous: true, NextRotation: nextWeek},
		},
		"the next value is in the Secret": {
			secrets.Facts{Recorded: rotating, Serial: 5, Credentials: in(old.value(4), next.value(5))},
			secrets.Plan{Secrets: rotating, Serial: 5, Current: old.value(4), Next: next.value(5), Continuous: true},
		},
		"every server has the next value": {
			secrets.Facts{Recorded: rotating, Serial: 5, Credentials: in(old.value(4), next.value(5)), Acknowledged: true},
			secrets.Plan{Secrets: rotating, Serial: 5, Current: next.value(5), Continuous: true, Step: secrets.StepPromoted, Unfinished: true},
		},
		"the Secret cannot be written": {
			secrets.Facts{Recorded: rotating, Serial: 5, Credentials: in(old.value(4), next.value(5)), Acknowledged: true, Unwritable: true},
			secrets.Plan{Secrets: rotating, Serial: 5, Current: old.value(4), Next: next.value(5), Continuous: true},
		},
		"the next value is current": {
			secrets.Facts{Recorded: rotating, Serial: 5, Credentials: in(next.value(5), none)},
			secrets.Plan{Secrets: list(old.retiring(now, expires), successor), Serial: 5, Current: next.value(5), Continuous: true, Step: secrets.StepCompleted},
		},
		"the old secret retires": {
			secrets.Facts{Recorded: list(old.retiring(now, expires), successor), Serial: 5, Credentials: in(next.value(5), none)},
			secrets.Plan{Secrets: list(old.retiring(now, expires), successor), Serial: 5, Current: next.value(5), Continuous: true, NextRotation: nextWeek.Add(59 * time.Minute)},
		},
		"the old secret has expired": {
			secrets.Facts{Recorded: list(old.retiring(now, now), successor), Serial: 5, Credentials: in(next.value(5), none)},
			secrets.Plan{Secrets: list(successor), Serial: 5, Current: next.value(5), Continuous: true, NextRotation: nextWeek.Add(59 * time.Minute)},
		},
		"the next value was removed, according to a cache": {
			secrets.Facts{Recorded: rotating, Serial: 5, Credentials: in(old.value(4), none)},
			secrets.Plan{Secrets: rotating, Serial: 5, Current: old.value(4), Continuous: true, Inconclusive: true},
		},
		"the next value was removed": {
			secrets.Facts{Recorded: rotating, Serial: 5, Credentials: in(old.value(4), none), Live: true},
			secrets.Plan{Secrets: current, Serial: 5, Current: old.value(4), Continuous: true, Step: secrets.StepRevoked, Unfinished: true},
		},
		"the Secret is missing, according to a cache": {
			secrets.Facts{Recorded: current, Serial: 4},
			secrets.Plan{Secrets: current, Serial: 4, Inconclusive: true},
		},
		"the Secret is missing": {
			secrets.Facts{Recorded: rotating, Serial: 5, Live: true},
			secrets.Plan{Secrets: list(), Serial: 5, Step: secrets.StepRevoked, Unfinished: true},
		},
		"the Secret is missing and cannot be written": {
			secrets.Facts{Recorded: rotating, Serial: 5, Live: true, Unwritable: true},
			secrets.Plan{Secrets: list(), Serial: 5, Step: secrets.StepRevoked, Unfinished: true},
		},
		"revoked, and the Secret cannot be written": {
			secrets.Facts{Serial: 5, Live: true, Unwritable: true},
			secrets.Plan{Serial: 5},
		},
		"overwritten": {
			secrets.Facts{Recorded: rotating, Serial: 5, Credentials: in(fresh.value(0), none), Live: true},
			secrets.Plan{Secrets: list(), Serial: 5, Step: secrets.StepRevoked, Unfinished: true},
		},
		"a serial that goes back": {
			secrets.Facts{Recorded: current, Serial: 5, Credentials: in(fresh.value(3), none), Live: true},
			secrets.Plan{Secrets: list(), Serial: 5, Step: secrets.StepRevoked, Unfinished: true},
		},
		"an old value, according to a cache": {
			secrets.Facts{Recorded: list(old.retiring(now, expires), successor), Serial: 5, Credentials: in(old.value(4), none)},
			secrets.Plan{Secrets: list(old.retiring(now, expires), successor), Serial: 5, Current: old.value(4), Inconclusive: true},
		},
		"a user wrote the old value": {
			secrets.Facts{Recorded: list(old.retiring(now, expires), next.ClientSecret), Serial: 5, Credentials: in(old.value(4), none), Live: true},
			secrets.Plan{Secrets: list(next.retiring(now, expires), old.ClientSecret), Serial: 5, Current: old.value(4), Continuous: true},
		},
		"a provided secret was replaced by an unadopted value, which a cache lacks": {
			secrets.Facts{Recorded: list(old.from("v1/1"))},
			secrets.Plan{Secrets: list(old.from("v1/1")), Inconclusive: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := testkit.Value(secrets.Make(test.facts, secrets.Want{Generated: &week}, now, noRandom))(t)
			testkit.Diff(t, "plan", test.want, got, cmpopts.EquateEmpty())
		})
	}
}

// A plan adds the verifier of a value only if the operator generated it after all others.
func TestAdoption(t *testing.T) {
	old, value := newSecret(t, now.Add(-time.Hour)), newSecret(t, now)
	for name, test := range map[string]struct {
		facts     secrets.Facts
		wantRoles []record.SecretRole
		wantStep  secrets.Step
	}{
		"the first":                  {secrets.Facts{Credentials: &secrets.Credentials{Current: value.value(1)}}, []record.SecretRole{record.RoleCurrent}, ""},
		"after a revocation":         {secrets.Facts{Serial: 3, Credentials: &secrets.Credentials{Current: value.value(4)}}, []record.SecretRole{record.RoleCurrent}, ""},
		"the record was lost":        {secrets.Facts{Credentials: &secrets.Credentials{Current: value.value(9)}}, []record.SecretRole{record.RoleCurrent}, ""},
		"the next":                   {secrets.Facts{Recorded: []record.ClientSecret{old.ClientSecret}, Serial: 3, Credentials: &secrets.Credentials{Current: old.value(3), Next: value.value(4)}}, []record.SecretRole{record.RoleCurrent, record.RoleNext}, ""},
		"a next that anyone wrote":   {secrets.Facts{Recorded: []record.ClientSecret{old.ClientSecret}, Serial: 3, Credentials: &secrets.Credentials{Current: old.value(3), Next: value.value(0)}}, []record.SecretRole{record.RoleCurrent}, ""},
		"a next of an earlier round": {secrets.Facts{Recorded: []record.ClientSecret{old.ClientSecret}, Serial: 3, Credentials: &secrets.Credentials{Current: old.value(3), Next: value.value(2)}}, []record.SecretRole{record.RoleCurrent}, ""},
		"alongside a provided one":   {secrets.Facts{Recorded: []record.ClientSecret{old.from("v1/1")}, Credentials: &secrets.Credentials{Current: value.value(1)}}, []record.SecretRole{record.RoleRetiring, record.RoleCurrent}, ""},
		"the current one is gone":    {secrets.Facts{Recorded: []record.ClientSecret{old.ClientSecret}, Serial: 3, Live: true, Credentials: &secrets.Credentials{Current: value.value(4)}}, []record.SecretRole{record.RoleCurrent}, ""},
		"an earlier one":             {secrets.Facts{Serial: 3, Live: true, Credentials: &secrets.Credentials{Current: value.value(3)}}, nil, secrets.StepFirst},
		"one that anyone wrote":      {secrets.Facts{Serial: 3, Live: true, Credentials: &secrets.Credentials{Current: value.value(0)}}, nil, secrets.StepFirst},
	} {
		t.Run(name, func(t *testing.T) {
			got := testkit.Value(secrets.Make(test.facts, secrets.Want{Generated: &secrets.Schedule{Overlap: time.Hour}}, now, rand.Reader))(t)
			var roles []record.SecretRole
			for _, s := range got.Secrets {
				roles = append(roles, s.Role)
			}
			if diff := cmp.Diff(test.wantRoles, roles); diff != "" || got.Step != test.wantStep || got.Inconclusive {
				t.Errorf("step %q, inconclusive %t, roles (-want +got):\n%s", got.Step, got.Inconclusive, diff)
			}
			if settled := test.facts.Credentials.Current.Plaintext == old.plaintext; got.Continuous != settled {
				t.Errorf("continuous: %t", got.Continuous) // Token servers must load a new current value first.
			}
			if got.Step == secrets.StepFirst && (got.Current.Serial != test.facts.Serial+1 || !clientsecret.WellFormed(got.Current.Plaintext)) {
				t.Errorf("the fresh value is %+v", got.Current)
			}
			if len(roles) > 0 && roles[len(roles)-1] != record.RoleRetiring && test.wantStep == "" && got.Serial < test.facts.Serial {
				t.Errorf("serial %d after %d", got.Serial, test.facts.Serial)
			}
		})
	}
}

// A mark is valid only for one value of one client in one Realm.
func TestMark(t *testing.T) {
	value, other := newSecret(t, now), newSecret(t, now)
	owner := secrets.Owner{Realm: "r1", Client: "c1"}
	mark := owner.Mark(value.value(7))
	for name, test := range map[string]struct {
		owner     secrets.Owner
		plaintext string
		mark      string
		want      int64
	}{
		"written by the operator":  {owner, value.plaintext, mark, 7},
		"overwritten":              {owner, other.plaintext, mark, 0},
		"another client":           {secrets.Owner{Realm: "r1", Client: "c2"}, value.plaintext, mark, 0},
		"another Realm":            {secrets.Owner{Realm: "r2", Client: "c1"}, value.plaintext, mark, 0},
		"another serial":           {owner, value.plaintext, "8" + mark[1:], 0},
		"no mark":                  {owner, value.plaintext, "", 0},
		"damaged":                  {owner, value.plaintext, "seven", 0},
		"a digest without a value": {owner, "", mark, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.owner.Read(test.plaintext, test.mark); got.Serial != test.want || got.Plaintext != test.plaintext {
				t.Errorf("Read() = %+v, want the serial %d", got, test.want)
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
			f := secrets.Facts{Recorded: []record.ClientSecret{current.ClientSecret}, Serial: 1, Credentials: &secrets.Credentials{Current: current.value(1)}}
			got, err := secrets.Make(f, secrets.Want{Generated: &test.schedule}, now, noRandom)
			if err != nil || !got.NextRotation.Equal(test.want) {
				t.Fatalf("next rotation %s, error %v; want %s", got.NextRotation, err, test.want)
			}
			if test.want.IsZero() {
				test.want = now.Add(1000 * time.Hour)
			} else if got, err = secrets.Make(f, secrets.Want{Generated: &test.schedule}, test.want, rand.Reader); err != nil || got.Step != secrets.StepNext || got.Next.Serial != 2 {
				t.Errorf("when it is due: %+v, error %v", got, err)
			}
			if _, err = secrets.Make(f, secrets.Want{Generated: &test.schedule}, test.want.Add(-time.Nanosecond), noRandom); err != nil {
				t.Errorf("before it is due: %v", err)
			}
		})
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
			if got, err := secrets.Make(secrets.Facts{Recorded: test.recorded, Live: true}, test.want, now, noRandom); !errors.Is(err, errRandom) {
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
