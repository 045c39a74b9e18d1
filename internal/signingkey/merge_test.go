package signingkey_test

import (
	"bytes"
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// keyOf returns a new key that was created at the given time after start.
func keyOf(t testing.TB, state signingkey.State, createdAt time.Duration, change ...func(*signingkey.Key)) signingkey.Key {
	t.Helper()
	k, err := signingkey.Generate(signingkey.EdDSA, start.Add(createdAt), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k.State = state
	if state != pending {
		k.ActiveAt, k.LongestLifetime = start.Add(createdAt), lifetime
	}
	for _, c := range change {
		c(&k)
	}
	return k
}

func TestMerge(t *testing.T) {
	published := func(k *signingkey.Key) { k.PublishedAt = start }
	retiredAt := func(at time.Duration) func(*signingkey.Key) {
		return func(k *signingkey.Key) { k.RetiredAt = start.Add(at) }
	}
	older, signs, next := keyOf(t, retiring, 0, retiredAt(day)), keyOf(t, active, day), keyOf(t, pending, 2*day, published)
	backup := []signingkey.Key{older, signs, next}
	own, ownNext := keyOf(t, active, 3*day), keyOf(t, pending, 4*day, published)
	// state describes a key after the merge: its ID, state, time of retirement, and longest lifetime.
	type state struct {
		ID        string
		State     signingkey.State
		Published bool
		RetiredAt time.Time
		Longest   time.Duration
	}
	of := func(k signingkey.Key, as signingkey.State, changes ...func(*state)) state {
		s := state{ID: k.ID, State: as, Published: !k.PublishedAt.IsZero(), RetiredAt: k.RetiredAt, Longest: k.LongestLifetime}
		for _, change := range changes {
			change(&s)
		}
		return s
	}
	longer := func(s *state) { s.Longest = time.Hour }
	var many []signingkey.Key
	for i := range signingkey.MaxKeys {
		many = append(many, keyOf(t, retiring, 0, retiredAt(time.Duration(i)*time.Minute)))
	}
	unfinished := keyOf(t, retiring, 0) // a token server may still have signed with it

	tests := map[string]struct {
		current, restored []signingkey.Key
		want              []state
		wantOmitted       []string
	}{
		"nothing to restore": {current: []signingkey.Key{own}, want: []state{of(own, active)}},
		"no key yet":         {restored: backup, want: []state{of(older, retiring), of(signs, active, longer), of(next, retiring, longer)}},
		"other keys": {
			current: []signingkey.Key{own, ownNext}, restored: backup,
			want: []state{of(older, retiring), of(signs, retiring, longer), of(next, retiring, longer), of(own, active), of(ownNext, pending)},
		},
		"the same keys, as they are now": {
			current:  []signingkey.Key{older, keyOf(t, retiring, day, func(k *signingkey.Key) { k.ID = signs.ID }), keyOf(t, active, 2*day, func(k *signingkey.Key) { k.ID = next.ID })},
			restored: backup,
			want:     []state{of(older, retiring), {ID: signs.ID, State: retiring, Longest: lifetime}, {ID: next.ID, State: active, Longest: lifetime}},
		},
		"too many keys": {
			current: []signingkey.Key{own}, restored: append(slices.Clone(many), unfinished, signs),
			want: func() []state {
				all := []state{of(unfinished, retiring), of(signs, retiring, longer), of(own, active)}
				for _, k := range many[3:] {
					all = append(all, of(k, retiring))
				}
				return all
			}(),
			wantOmitted: []string{many[2].ID, many[1].ID, many[0].ID},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			merged, omitted := signingkey.Merge(tc.current, tc.restored, time.Hour)
			var got []state
			for _, k := range merged {
				got = append(got, of(k, k.State))
			}
			byID := func(a, b state) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) }
			slices.SortFunc(got, byID)
			slices.SortFunc(tc.want, byID)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantOmitted, omitted); diff != "" {
				t.Errorf("omitted (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMergeAndPlan plans a realm, takes a backup at some time, and restores it later, into the same
// realm, a realm with other keys, or a realm without keys.
func TestMergeAndPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := drawPolicy(t)
		policy.Algorithm = signingkey.EdDSA
		now := start
		plan := func(keys []signingkey.Key) []signingkey.Key {
			planned, _, err := signingkey.Plan(now, keys, policy, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			return planned
		}
		run := func(keys []signingkey.Key, label string) []signingkey.Key {
			for range rapid.IntRange(1, 12).Draw(t, label) {
				now = now.Add(time.Duration(rapid.IntRange(1, 48*60).Draw(t, "wait")) * time.Minute)
				if rapid.Bool().Draw(t, "acknowledged") {
					keys = signingkey.Acknowledge(now, keys)
				}
				keys = plan(keys)
			}
			return keys
		}
		backup := run(nil, "before")
		var current []signingkey.Key
		switch rapid.SampledFrom([]string{"same", "other", "none"}).Draw(t, "realm") {
		case "same":
			current = run(backup, "after")
		case "other":
			current = run(nil, "other")
		}

		merged, omitted := signingkey.Merge(current, backup, policy.TokenLifetime)
		again, _ := signingkey.Merge(merged, backup, policy.TokenLifetime)
		if !bytes.Equal(encodeKeys(t, merged), encodeKeys(t, again)) {
			t.Fatal("merging twice changed the keys")
		}
		if len(merged) > signingkey.MaxKeys || len(omitted) > 0 && len(merged) < signingkey.MaxKeys {
			t.Fatalf("%d keys, and %d omitted", len(merged), len(omitted))
		}
		signs := activeKey(t, merged).ID
		if want := signingkey.ActiveID(slices.Concat(current, backup)); signs != want {
			t.Fatalf("key %s signs, want %s", signs, want)
		}
		// Every key that signed a token, or may have done so after the backup, verifies it until it expires.
		for _, k := range slices.Concat(current, backup) {
			i := slices.IndexFunc(merged, func(m signingkey.Key) bool { return m.ID == k.ID })
			if i < 0 {
				t.Fatalf("key %s is lost", k.ID)
			}
		}
		for _, k := range plan(merged) {
			if ranks[k.State] == 0 {
				t.Fatalf("key %s has state %q", k.ID, k.State)
			}
		}
		kept := plan(merged)
		for i := range merged {
			k := &merged[i]
			if k.State == retiring && k.RetiredAt.IsZero() && !slices.ContainsFunc(kept, func(p signingkey.Key) bool { return p.ID == k.ID }) {
				t.Fatalf("key %s was removed before all token servers stopped using it", k.ID)
			}
		}
		// The restored keys end like others: in the end, only current keys are left.
		for range 4 {
			now = now.Add(policy.RotationInterval + 48*time.Hour)
			kept = plan(signingkey.Acknowledge(now, kept))
		}
		if len(kept) > 4 {
			t.Fatalf("%d keys are left", len(kept))
		}
	})
}
