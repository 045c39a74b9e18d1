package secrets_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
)

func TestMakeProvided(t *testing.T) {
	at := now.Add(time.Nanosecond) // the end of the overlap is rounded up
	older, newer, value := newSecret(t, now.Add(-time.Hour)), newSecret(t, now.Add(-time.Minute)), newSecret(t, now)
	w := &secrets.Provided{Source: "v1/2", Hash: value.Hash, Overlap: time.Hour}
	end := now.Add(time.Hour + time.Second)
	accepted := value.from("v1/2")
	replacing := accepted
	replacing.Successor = true
	for name, test := range map[string]struct {
		facts secrets.Facts
		want  secrets.Plan
	}{
		"same version":    {secrets.Facts{Recorded: []record.ClientSecret{newer.from("v1/2")}}, secrets.Plan{Secrets: []record.ClientSecret{newer.from("v1/2")}, KeepsSecret: true}},
		"same value":      {secrets.Facts{Recorded: []record.ClientSecret{value.from("v1/1")}}, secrets.Plan{Secrets: []record.ClientSecret{accepted}, KeepsSecret: true}},
		"same as in spec": {secrets.Facts{Recorded: []record.ClientSecret{value.from("spec")}}, secrets.Plan{Secrets: []record.ClientSecret{from("spec", value.retiring(now.Add(time.Second), end)), replacing}, Step: secrets.StepRetire}},
		"generated before": {
			secrets.Facts{Recorded: []record.ClientSecret{newer.ClientSecret, older.as(record.RoleNext)}},
			secrets.Plan{Secrets: []record.ClientSecret{newer.retiring(now.Add(time.Second), end), replacing}, Step: secrets.StepRetire},
		},
		"hashed before, expire at different times": {
			secrets.Facts{Recorded: []record.ClientSecret{
				{ID: "a", Hash: older.Hash, Source: "spec", Role: record.RoleCurrent, ExpiresAt: now.Add(time.Minute)},
				{ID: "b", Hash: newer.Hash, Source: "spec", Role: record.RoleCurrent, ExpiresAt: now.Add(3 * time.Minute)},
				{ID: "c", Hash: older.Hash, Source: "spec", Role: record.RoleCurrent, ExpiresAt: now.Add(2 * time.Minute)},
			}},
			secrets.Plan{Secrets: []record.ClientSecret{{ID: "b", Hash: newer.Hash, Source: "spec", Role: record.RoleRetiring, ReplacedAt: now.Add(time.Second), ExpiresAt: now.Add(3 * time.Minute)}, replacing}, Step: secrets.StepRetire},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := testkit.Value(secrets.Make(test.facts, secrets.Want{Provided: w}, at, rand.Reader))(t)
			if !accepts(got.Secrets, value.plaintext, at) && name != "same version" {
				t.Error("the provided value is not accepted")
			}
			testkit.Diff(t, "plan", test.want, got)
		})
	}
}

func from(source string, s record.ClientSecret) record.ClientSecret {
	s.Source = source
	return s
}

// A replaced provided secret stays valid until it expires, also if the spec then generates secrets, and if a
// user revokes one of them.
func TestReplacedProvidedSecretIsNotRevoked(t *testing.T) {
	first, second, generated := newSecret(t, now.Add(-time.Hour)), newSecret(t, now), newSecret(t, now)
	f := secrets.Facts{Recorded: []record.ClientSecret{first.from("v1/1")}, Live: true}
	generate := secrets.Want{Generated: &secrets.Schedule{Overlap: time.Hour}}
	for _, step := range []struct {
		name        string
		credentials *secrets.Credentials
		want        secrets.Want
		accepted    []secret
	}{
		{"another value", nil, secrets.Want{Provided: &secrets.Provided{Source: "v1/2", Hash: second.Hash, Overlap: time.Hour}}, []secret{first, second}},
		{"a generated secret", &secrets.Credentials{Current: generated.value(1)}, generate, []secret{first, second, generated}},
		{"it was revoked", nil, generate, []secret{first, second}},
	} {
		f.Credentials = step.credentials
		got := testkit.Value(secrets.Make(f, step.want, now, rand.Reader))(t)
		f.Recorded, f.Serial = got.Secrets, got.Serial
		if len(got.Secrets) != len(step.accepted) {
			t.Fatalf("%s: %d secrets, want %d", step.name, len(got.Secrets), len(step.accepted))
		}
		for _, s := range step.accepted {
			if !accepts(got.Secrets, s.plaintext, now) {
				t.Errorf("%s: a secret is not accepted", step.name)
			}
		}
	}
}

// Until the value is hashed, the client keeps the secrets that it has.
func TestProvidedIsNotHashedYet(t *testing.T) {
	recorded := []record.ClientSecret{newSecret(t, now.Add(-time.Hour)).until(now.Add(time.Minute)), newSecret(t, now).from("v1/1")}
	want := secrets.Want{Provided: &secrets.Provided{Source: "v1/2", Overlap: time.Hour}}
	got := testkit.Value(secrets.Make(secrets.Facts{Recorded: recorded}, want, now, noRandom))(t)
	testkit.Diff(t, "plan", secrets.Plan{Secrets: recorded, KeepsSecret: true}, got)
}

func TestMakeHashed(t *testing.T) {
	before := now.Add(-time.Hour)
	a, b := newSecret(t, before), newSecret(t, before)
	listed := func(id string, s secret, expires time.Time) record.ClientSecret {
		return record.ClientSecret{ID: id, Hash: s.Hash, ExpiresAt: expires}
	}
	recorded := func(id string, s secret, created, expires time.Time) record.ClientSecret {
		return record.ClientSecret{ID: id, CreatedAt: created, Hash: s.Hash, ExpiresAt: expires, Source: "spec", Role: record.RoleCurrent}
	}
	for name, test := range map[string]struct {
		recorded []record.ClientSecret
		listed   []record.ClientSecret
		want     secrets.Plan
	}{
		"another": {
			[]record.ClientSecret{recorded("a", a, before, time.Time{})},
			[]record.ClientSecret{listed("a", a, time.Time{}), listed("b", b, time.Time{})},
			secrets.Plan{Secrets: []record.ClientSecret{recorded("a", a, before, time.Time{}), recorded("b", b, now, time.Time{})}},
		},
		"different hash with the same ID": {
			[]record.ClientSecret{recorded("a", a, before, time.Time{})},
			[]record.ClientSecret{listed("a", b, time.Time{})},
			secrets.Plan{Secrets: []record.ClientSecret{recorded("a", b, now, time.Time{})}},
		},
		"the same hash was provided": {
			[]record.ClientSecret{a.from("v1/1")},
			[]record.ClientSecret{listed(a.ID, a, time.Time{})},
			secrets.Plan{Secrets: []record.ClientSecret{recorded(a.ID, a, now, time.Time{})}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := secrets.Facts{Recorded: test.recorded}
			got, err := secrets.Make(f, secrets.Want{Hashed: test.listed}, now, noRandom)
			if err != nil || got.Secrets == nil {
				t.Fatalf("secrets %v, error %v", got.Secrets, err)
			}
			testkit.Diff(t, "plan", test.want, got, cmpopts.EquateEmpty())
		})
	}
}

// If the spec requests no secret, all secrets expire immediately.
func TestMakeNone(t *testing.T) {
	f := secrets.Facts{Recorded: []record.ClientSecret{newSecret(t, now).ClientSecret}}
	got := testkit.Value(secrets.Make(f, secrets.Want{}, now, noRandom))(t)
	testkit.Diff(t, "plan", secrets.Plan{Secrets: []record.ClientSecret{}}, got)
}
