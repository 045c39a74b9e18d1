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

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
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

// Someone with the operator's credentials can record secrets that are valid forever. Each one except for the one
// that workloads use gets an expiration, also one that is already retiring, and one of another source.
func TestEverySecretButOneExpires(t *testing.T) {
	used, value := newSecret(t, now.Add(-time.Hour)), newSecret(t, now)
	provided := value.from("v1/1")
	planted := func() []record.ClientSecret {
		retiring, other, current, unknown := newSecret(t, now), newSecret(t, now), newSecret(t, now), newSecret(t, now)
		sameID := newSecret(t, now)
		sameID.ID = used.ID
		return []record.ClientSecret{
			retiring.as(record.RoleRetiring), from("x", other.as(record.RoleRetiring)), from("x", current.ClientSecret), unknown.as("x"), sameID.ClientSecret,
		}
	}
	for name, test := range map[string]struct {
		facts secrets.Facts
		want  secrets.Want
		used  secret
	}{
		"generated": {
			secrets.Facts{Recorded: append(planted(), used.ClientSecret), Serial: 1, Credentials: &secrets.Credentials{Current: used.value(1)}},
			secrets.Want{Generated: &secrets.Schedule{Overlap: time.Hour}},
			used,
		},
		"generated for the first time": {
			secrets.Facts{Recorded: planted(), Credentials: &secrets.Credentials{Current: used.value(1)}, Live: true},
			secrets.Want{Generated: &secrets.Schedule{Overlap: time.Hour}},
			used,
		},
		"provided": {
			secrets.Facts{Recorded: append(planted(), provided)},
			secrets.Want{Provided: &secrets.Provided{Source: "v1/1", Hash: value.Hash, Overlap: time.Hour}},
			value,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := testkit.Value(secrets.Make(test.facts, test.want, now, rand.Reader))(t)
			var forever []record.ClientSecret
			for _, s := range got.Secrets {
				switch {
				case s.ExpiresAt.IsZero():
					forever = append(forever, s)
				case s.ExpiresAt.After(now.Add(time.Hour)):
					t.Errorf("a secret expires at %s", s.ExpiresAt)
				}
			}
			if len(forever) != 1 || !accepts(forever, test.used.plaintext, now) {
				t.Errorf("%d secrets never expire, want only the one in use", len(forever))
			}
		})
	}
}

// The table shows which write follows from the state of a client with a generated secret.
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
		"the mark was removed": {
			secrets.Facts{Recorded: current, Serial: 4, Credentials: in(old.value(0), none)},
			secrets.Plan{Secrets: current, Serial: 4, Current: old.value(4), KeepsSecret: true, NextRotation: nextWeek},
		},
		"the key was renamed": {
			secrets.Facts{Recorded: current, Serial: 4, Credentials: in(none, none, old.plaintext)},
			secrets.Plan{Secrets: current, Serial: 4, Current: old.value(4), KeepsSecret: true, NextRotation: nextWeek},
		},
		"the next value is in the Secret": {
			secrets.Facts{Recorded: rotating, Serial: 5, Credentials: in(old.value(4), next.value(5))},
			secrets.Plan{Secrets: rotating, Serial: 5, Current: old.value(4), Next: next.value(5), KeepsSecret: true},
		},
		"every server has the next value": {
			secrets.Facts{Recorded: rotating, Serial: 5, Credentials: in(old.value(4), next.value(5)), Acknowledged: true},
			secrets.Plan{Secrets: rotating, Serial: 5, Current: next.value(5), KeepsSecret: true, Step: secrets.StepPromote, Unfinished: true},
		},
		"the Secret cannot be written": {
			secrets.Facts{Recorded: rotating, Serial: 5, Credentials: in(old.value(4), next.value(5)), Acknowledged: true, Unwritable: true},
			secrets.Plan{Secrets: rotating, Serial: 5, Current: old.value(4), Next: next.value(5), KeepsSecret: true},
		},
		"the next value is current": {
			secrets.Facts{Recorded: rotating, Serial: 5, Credentials: in(next.value(5), none)},
			secrets.Plan{Secrets: list(old.retiring(now, expires), successor), Serial: 5, Current: next.value(5), KeepsSecret: true, Step: secrets.StepRetire},
		},
		"the old secret retires": {
			secrets.Facts{Recorded: list(old.retiring(now, expires), successor), Serial: 5, Credentials: in(next.value(5), none)},
			secrets.Plan{Secrets: list(old.retiring(now, expires), successor), Serial: 5, Current: next.value(5), KeepsSecret: true, NextRotation: nextWeek.Add(59 * time.Minute)},
		},
		"the next value was removed, according to a cache": {
			secrets.Facts{Recorded: rotating, Serial: 5, Credentials: in(old.value(4), none)},
			secrets.Plan{Secrets: rotating, Serial: 5, Current: old.value(4), KeepsSecret: true, Inconclusive: true},
		},
		"the next value was removed": {
			secrets.Facts{Recorded: rotating, Serial: 5, Credentials: in(old.value(4), none), Live: true},
			secrets.Plan{Secrets: current, Serial: 5, Current: old.value(4), KeepsSecret: true, Step: secrets.StepRevoke, Unfinished: true},
		},
		"the Secret is missing, according to a cache": {
			secrets.Facts{Recorded: current, Serial: 4},
			secrets.Plan{Secrets: current, Serial: 4, Inconclusive: true},
		},
		"the Secret is missing": {
			secrets.Facts{Recorded: rotating, Serial: 5, Live: true},
			secrets.Plan{Secrets: list(), Serial: 5, Step: secrets.StepRevoke, Unfinished: true},
		},
		"revoked, and the Secret cannot be written": {
			secrets.Facts{Serial: 5, Live: true, Unwritable: true},
			secrets.Plan{Serial: 5},
		},
		"overwritten": {
			secrets.Facts{Recorded: rotating, Serial: 5, Credentials: in(fresh.value(0), none), Live: true},
			secrets.Plan{Secrets: list(), Serial: 5, Step: secrets.StepRevoke, Unfinished: true},
		},
		"a serial that goes back": {
			secrets.Facts{Recorded: current, Serial: 5, Credentials: in(fresh.value(3), none), Live: true},
			secrets.Plan{Secrets: list(), Serial: 5, Step: secrets.StepRevoke, Unfinished: true},
		},
		"an old value, according to a cache": {
			secrets.Facts{Recorded: list(old.retiring(now, expires), successor), Serial: 5, Credentials: in(old.value(4), none)},
			secrets.Plan{Secrets: list(old.retiring(now, expires), successor), Serial: 5, Current: old.value(4), Inconclusive: true},
		},
		"a user wrote the old value": {
			secrets.Facts{Recorded: list(old.retiring(now, expires), next.ClientSecret), Serial: 5, Credentials: in(old.value(4), none), Live: true},
			secrets.Plan{Secrets: list(next.retiring(now, expires), old.ClientSecret), Serial: 5, Current: old.value(4), KeepsSecret: true},
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
		"the record was lost":        {secrets.Facts{Credentials: &secrets.Credentials{Current: value.value(9)}}, []record.SecretRole{record.RoleCurrent}, ""},
		"the next":                   {secrets.Facts{Recorded: []record.ClientSecret{old.ClientSecret}, Serial: 3, Credentials: &secrets.Credentials{Current: old.value(3), Next: value.value(4)}}, []record.SecretRole{record.RoleCurrent, record.RoleNext}, ""},
		"a next of an earlier round": {secrets.Facts{Recorded: []record.ClientSecret{old.ClientSecret}, Serial: 3, Credentials: &secrets.Credentials{Current: old.value(3), Next: value.value(2)}}, []record.SecretRole{record.RoleCurrent}, ""},
		"alongside a provided one":   {secrets.Facts{Recorded: []record.ClientSecret{old.from("v1/1")}, Credentials: &secrets.Credentials{Current: value.value(1)}}, []record.SecretRole{record.RoleRetiring, record.RoleCurrent}, ""},
		"the current one is gone":    {secrets.Facts{Recorded: []record.ClientSecret{old.ClientSecret}, Serial: 3, Live: true, Credentials: &secrets.Credentials{Current: value.value(4)}}, []record.SecretRole{record.RoleCurrent}, ""},
		"an earlier one":             {secrets.Facts{Serial: 3, Live: true, Credentials: &secrets.Credentials{Current: value.value(3)}}, nil, secrets.StepWriteFirst},
		"one that anyone wrote":      {secrets.Facts{Serial: 3, Live: true, Credentials: &secrets.Credentials{Current: value.value(0)}}, nil, secrets.StepWriteFirst},
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
			if settled := test.facts.Credentials.Current.Plaintext == old.plaintext; got.KeepsSecret != settled {
				t.Errorf("continuous: %t", got.KeepsSecret) // Token servers must load a new current value first.
			}
			if got.Step == secrets.StepWriteFirst && (got.Current.Serial != test.facts.Serial+1 || !clientsecret.WellFormed(got.Current.Plaintext)) {
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
		"written by the operator": {owner, value.plaintext, mark, 7},
		"overwritten":             {owner, other.plaintext, mark, 0},
		"another client":          {secrets.Owner{Realm: "r1", Client: "c2"}, value.plaintext, mark, 0},
		"another Realm":           {secrets.Owner{Realm: "r2", Client: "c1"}, value.plaintext, mark, 0},
		"another serial":          {owner, value.plaintext, "8" + mark[1:], 0},
		"damaged":                 {owner, value.plaintext, "seven", 0},
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
		"rotationRequestTime in the same second":  {schedule: secrets.Schedule{RotateAfter: now.Add(999 * time.Millisecond)}},
		"rotationRequestTime in the next second":  {secrets.Schedule{RotateAfter: now.Add(1500 * time.Millisecond)}, now.Add(time.Second)},
		"rotationRequestTime before the interval": {secrets.Schedule{Interval: 5 * time.Hour, RotateAfter: now.Add(time.Hour)}, now.Add(time.Hour)},
		"rotationRequestTime after the interval":  {secrets.Schedule{Interval: 5 * time.Hour, RotateAfter: now.Add(9 * time.Hour)}, now.Add(5 * time.Hour)},
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
			} else if got, err = secrets.Make(f, secrets.Want{Generated: &test.schedule}, test.want, rand.Reader); err != nil || got.Step != secrets.StepWriteNext || got.Next.Serial != 2 {
				t.Errorf("when it is due: %+v, error %v", got, err)
			}
			if _, err = secrets.Make(f, secrets.Want{Generated: &test.schedule}, test.want.Add(-time.Nanosecond), noRandom); err != nil {
				t.Errorf("before it is due: %v", err)
			}
		})
	}
}

func TestMakeReturnsRandomSourceError(t *testing.T) {
	provided := []record.ClientSecret{newSecret(t, now).from("v1/1")}
	got, err := secrets.Make(secrets.Facts{Recorded: provided, Live: true}, secrets.Want{Generated: &secrets.Schedule{}}, now, noRandom)
	if !errors.Is(err, errRandom) {
		t.Errorf("plan %+v, error %v", got, err)
	}
}

func TestObsolete(t *testing.T) {
	kept, dropped, external := newSecret(t, now), newSecret(t, now), newSecret(t, now)
	p := secrets.Plan{Secrets: []record.ClientSecret{kept.ClientSecret, external.from("v1/1")}}
	if p.Obsolete([]string{dropped.plaintext, kept.plaintext}) {
		t.Error("a Secret with a secret of the plan is obsolete")
	}
	if !p.Obsolete([]string{external.plaintext}) {
		t.Error("a Secret with the provided secret is not obsolete")
	}
}

// whenUnused ends an old secret after a day without use, and after 30 days in any case.
var whenUnused = secrets.Schedule{Overlap: 30 * 24 * time.Hour, UnusedFor: 24 * time.Hour}

func TestOldSecretEndsWhenUnused(t *testing.T) {
	const day, hour = 24 * time.Hour, time.Hour
	older, newer := newSecret(t, now.Add(-day)), newSecret(t, now.Add(-hour))
	for name, test := range map[string]struct {
		schedule  secrets.Schedule
		use       *secrets.Use
		after     time.Duration // the time of the plan, after now
		wantEnd   bool
		wantCheck time.Duration // after the time of the plan
	}{
		"never used":                      {whenUnused, &secrets.Use{Until: now.Add(day)}, day, true, 0},
		"a second too early":              {whenUnused, &secrets.Use{Until: now.Add(day - time.Second)}, day, false, time.Second},
		"used since its replacement":      {whenUnused, &secrets.Use{Last: now.Add(3 * hour), Until: now.Add(day)}, day, false, 3 * hour},
		"last use after the last report":  {whenUnused, &secrets.Use{Last: now.Add(2 * day), Until: now.Add(day)}, 3 * day, false, 2 * day},
		"uses are not known":              {whenUnused, nil, 9 * day, false, 0},
		"an overlap":                      {secrets.Schedule{Overlap: 30 * day}, &secrets.Use{Until: now.Add(9 * day)}, 9 * day, false, -1},
		"at the maximum, used until then": {whenUnused, &secrets.Use{Last: now.Add(30 * day), Until: now.Add(30 * day)}, 30 * day, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			old := older.retiring(now, now.Add(30*day))
			f := secrets.Facts{Recorded: []record.ClientSecret{old, newer.ClientSecret}, Serial: 2, Credentials: &secrets.Credentials{Current: newer.value(2)}}
			if test.use != nil {
				f.Uses = map[string]secrets.Use{old.ID: *test.use, newer.ID: {Until: now.Add(90 * day)}}
			}
			at := now.Add(test.after)
			if test.wantEnd && at.Before(old.ExpiresAt) {
				first := testkit.Value(secrets.Make(f, secrets.Want{Generated: &test.schedule}, at, noRandom))(t)
				if !first.ConfirmUses || first.Step != "" || len(first.Secrets) != 2 {
					t.Errorf("the cache alone ends the secret: %+v", first)
				}
				f.Uses[old.ID] = secrets.Use{Last: test.use.Last, Until: test.use.Until, Confirmed: true}
			}
			got := testkit.Value(secrets.Make(f, secrets.Want{Generated: &test.schedule}, at, noRandom))(t)
			want := secrets.Plan{Secrets: []record.ClientSecret{newer.ClientSecret}, Serial: 2, Current: newer.value(2), KeepsSecret: true}
			if test.wantEnd && at.Before(old.ExpiresAt) {
				want.Step, want.Unfinished = secrets.StepExpireUnused, true
			}
			if !test.wantEnd {
				want.Secrets = []record.ClientSecret{old, newer.ClientSecret}
				if test.wantCheck >= 0 {
					want.Check = at.Add(test.wantCheck)
				}
			}
			testkit.Diff(t, "plan", want, got)
		})
	}
}

// Of several old secrets, the first that may end decides when to check again.
func TestFirstUnusedSecretIsChecked(t *testing.T) {
	first, second, current := newSecret(t, now.Add(-2*time.Hour)), newSecret(t, now.Add(-time.Hour)), newSecret(t, now)
	f := secrets.Facts{
		Recorded: []record.ClientSecret{first.retiring(now, now.Add(48*time.Hour)), second.retiring(now, now.Add(48*time.Hour)), current.ClientSecret},
		Serial:   3, Credentials: &secrets.Credentials{Current: current.value(3)},
		Uses: map[string]secrets.Use{first.ID: {Until: now.Add(23 * time.Hour)}, second.ID: {Until: now.Add(time.Hour)}},
	}
	got := testkit.Value(secrets.Make(f, secrets.Want{Generated: &whenUnused}, now.Add(23*time.Hour), noRandom))(t)
	if want := now.Add(24 * time.Hour); !got.Check.Equal(want) {
		t.Errorf("check at %s, want %s", got.Check, want)
	}
}

func TestRestoredSecrets(t *testing.T) {
	old, older, own := newSecret(t, now.Add(-48*time.Hour)), newSecret(t, now.Add(-96*time.Hour)), newSecret(t, now)
	listed := newSecret(t, now.Add(-time.Hour))
	backup := []record.ClientSecret{older.until(now.Add(time.Hour)), old.ClientSecret}
	generated := secrets.Want{Generated: &secrets.Schedule{Overlap: 24 * time.Hour}}
	provided := secrets.Want{Provided: &secrets.Provided{Source: "uid/1/key", Hash: old.Hash, Overlap: time.Hour}}
	hashed := secrets.Want{Hashed: []record.ClientSecret{{ID: listed.ID, Hash: listed.Hash}}}
	expired := secrets.Want{Hashed: []record.ClientSecret{{ID: listed.ID, Hash: listed.Hash, ExpiresAt: now}}}
	spec := []record.ClientSecret{old.from(secrets.SourceSpec), listed.from(secrets.SourceSpec)}

	in := func(s secret, serial int64) *secrets.Credentials {
		return &secrets.Credentials{Current: s.value(serial)}
	}
	// want contains the IDs of the secrets. An empty ID is a new secret.
	for name, test := range map[string]struct {
		facts        secrets.Facts
		want         secrets.Want
		wantSecrets  []string
		wantRestored []string
		wantDeliver  string
	}{
		"credentials Secret of the backup":  {secrets.Facts{Restored: backup, Live: true, Credentials: in(old, 0)}, generated, []string{old.ID}, []string{older.ID}, old.plaintext},
		"a new secret is revoked":           {secrets.Facts{Restored: backup, Recorded: []record.ClientSecret{own.ClientSecret}, Serial: 1, Live: true}, generated, nil, []string{older.ID, old.ID}, ""},
		"credentials Secret restored later": {secrets.Facts{Restored: backup, Recorded: []record.ClientSecret{own.ClientSecret}, Serial: 1, Live: true, Credentials: in(old, 0)}, generated, []string{own.ID, old.ID}, []string{older.ID}, old.plaintext},
		"the same secret is provided":       {secrets.Facts{Restored: backup}, provided, []string{old.ID}, []string{older.ID}, ""},
		"a hash is no longer listed":        {secrets.Facts{Restored: spec}, hashed, []string{listed.ID}, nil, ""},
		"a listed hash has expired":         {secrets.Facts{Restored: spec}, expired, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := testkit.Value(secrets.Make(test.facts, test.want, now, rand.Reader))(t)
			known := map[string]bool{old.ID: true, older.ID: true, own.ID: true, listed.ID: true}
			ids := func(all []record.ClientSecret) (ids []string) {
				for _, s := range all {
					if !known[s.ID] {
						s.ID = ""
					}
					ids = append(ids, s.ID)
				}
				return ids
			}
			testkit.Diff(t, "secrets", test.wantSecrets, ids(p.Secrets), cmpopts.EquateEmpty())
			testkit.Diff(t, "restored", test.wantRestored, ids(p.Restored), cmpopts.EquateEmpty())
			if test.wantDeliver != "" && p.Current.Plaintext != test.wantDeliver {
				t.Errorf("delivers %q, want %q", p.Current.Plaintext, test.wantDeliver)
			}
		})
	}
}
