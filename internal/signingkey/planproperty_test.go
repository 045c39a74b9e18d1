package signingkey_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// life is a realm's keys as a test leads them through time, with what it must remember.
type life struct {
	now    time.Time
	policy signingkey.Policy
	keys   []signingkey.Key
	next   time.Time
	signs  time.Duration // the token lifetime in force since the last plan

	published map[string]time.Time // by key id: when it was first in the JWK Set
	ahead     map[string]time.Duration
	valid     map[string]time.Time // by key id: until when a token that it signed may be valid
	active    string
}

func (l *life) plan(t *rapid.T) {
	keys, next, err := signingkey.Plan(l.now, l.keys, l.policy, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	again, nextAgain, err := signingkey.Plan(l.now, keys, l.policy, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := encodeKeys(t, keys), encodeKeys(t, again); !bytes.Equal(a, b) || !next.Equal(nextAgain) {
		t.Fatalf("planned twice:\n%s\n%s\nnext %s, %s", a, b, next, nextAgain)
	}
	if !next.IsZero() && !next.After(l.now) {
		t.Fatalf("at %s the next plan is due at %s", l.now, next)
	}
	l.keys, l.next, l.signs = keys, next, l.policy.TokenLifetime
}

// theActive returns the one key that signs.
func (l *life) theActive(t *rapid.T) signingkey.Key {
	var found []signingkey.Key
	for _, k := range l.keys {
		if k.State == signingkey.Active {
			found = append(found, k)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d active keys", len(found))
	}
	return found[0]
}

func encodeKeys(t *rapid.T, keys []signingkey.Key) []byte {
	data, err := json.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// fast are the algorithms whose keys are made in no time.
var fast = []signingkey.Algorithm{signingkey.ES256, signingkey.ES384, signingkey.EdDSA}

func drawPolicy(t *rapid.T) signingkey.Policy {
	return signingkey.Policy{
		Algorithm:     rapid.SampledFrom(fast).Draw(t, "algorithm"),
		PublishAhead:  time.Duration(rapid.IntRange(10, 24*60).Draw(t, "publishAhead")) * time.Minute,
		TokenLifetime: time.Duration(rapid.IntRange(10, 24*3600).Draw(t, "tokenLifetime")) * time.Second,
	}
}

// Through any changes of policy, at any times: one key signs; but for the first it was published
// long enough; and none disappears while a token of its may be valid.
func TestPlanNeverLeavesATokenUnverifiable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life{
			now: start, policy: drawPolicy(t),
			published: map[string]time.Time{}, ahead: map[string]time.Duration{}, valid: map[string]time.Time{},
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			l.plan(t)
			l.check(t)
			if rapid.Bool().Draw(t, "change") {
				l.policy = drawPolicy(t)
			}
			l.advance(t)
		}
	})
}

// advance lets time pass, in which the active key signs with the lifetime that is in force.
func (l *life) advance(t *rapid.T) {
	active := l.theActive(t)
	switch {
	case !l.next.IsZero() && rapid.Bool().Draw(t, "until due"):
		l.now = l.next
	default:
		l.now = l.now.Add(time.Duration(rapid.Int64Range(0, int64(30*time.Hour/time.Millisecond)).Draw(t, "pause")) * time.Millisecond)
	}
	if until := l.now.Add(l.signs); until.After(l.valid[active.ID]) {
		l.valid[active.ID] = until
	}
}

func (l *life) check(t *rapid.T) {
	listed := map[string]bool{}
	for _, k := range l.keys {
		listed[k.ID] = true
		if _, known := l.published[k.ID]; !known {
			l.published[k.ID], l.ahead[k.ID] = l.now, l.policy.PublishAhead
		}
	}
	active := l.theActive(t)
	if active.LongestLifetime < l.policy.TokenLifetime {
		t.Fatalf("the active key counts with %s and signs for %s", active.LongestLifetime, l.policy.TokenLifetime)
	}
	// Plans are made in whole seconds.
	if l.active != "" && l.active != active.ID && l.now.Sub(l.published[active.ID]) <= l.ahead[active.ID]-time.Second {
		t.Fatalf("key %s signs %s after it was published, want %s", active.ID, l.now.Sub(l.published[active.ID]), l.ahead[active.ID])
	}
	l.active = active.ID
	for id, until := range l.valid {
		if !listed[id] && l.now.Before(until) {
			t.Fatalf("at %s key %s is gone, and a token of its is valid until %s", l.now, id, until)
		}
	}
}

// Until the next plan is due, planning changes nothing; when it is due, it does. Changes of
// policy in between leave keys that retire beside keys that are to come.
func TestPlanTellsWhenItIsDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life{now: start, policy: drawPolicy(t)}
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			l.plan(t)
			if before, due := encodeKeys(t, l.keys), l.next; !due.IsZero() {
				l.now = due.Add(-time.Nanosecond)
				l.plan(t)
				if now := encodeKeys(t, l.keys); !bytes.Equal(now, before) || !l.next.Equal(due) {
					t.Fatalf("before it was due the plan changed:\n%s\n%s", before, now)
				}
				l.now = due
				l.plan(t)
				if bytes.Equal(encodeKeys(t, l.keys), before) {
					t.Fatal("when it was due the plan changed nothing")
				}
			}
			if rapid.Bool().Draw(t, "change") {
				l.policy = drawPolicy(t)
			}
		}
	})
}

// Clocks that step by up to an hour, either way, neither lose the active key nor make two,
// and the keys stay in order.
func TestPlanStandsClocksThatStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life{now: start, policy: drawPolicy(t)}
		l.plan(t)
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			before := l.theActive(t).ID
			if rapid.Bool().Draw(t, "change") {
				l.policy = drawPolicy(t)
			}
			l.now = l.now.Add(time.Duration(rapid.Int64Range(int64(-time.Hour), int64(2*time.Hour)).Draw(t, "step")))
			l.plan(t)
			l.theActive(t)
			if !slices.IsSortedFunc(l.keys, func(a, b signingkey.Key) int { return a.CreatedAt.Compare(b.CreatedAt) }) {
				t.Fatal("the keys don't come oldest first")
			}
			kept := false
			for _, k := range l.keys {
				kept = kept || k.ID == before
			}
			if !kept {
				t.Fatal("the key that signed a moment ago is gone")
			}
		}
	})
}
