package signingkey_test

import (
	"bytes"
	"crypto/rand"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// planned describes a key. Its times are relative to start.
type planned struct {
	Algorithm                                   signingkey.Algorithm
	State                                       signingkey.State
	CreatedAt, PublishedAt, ActiveAt, RetiredAt time.Duration
	LongestLifetime, RemoveAt                   time.Duration
}

func since(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return at.Sub(start)
}

func summary(keys []signingkey.Key, policy signingkey.Policy) []planned {
	var all []planned
	for _, k := range keys {
		all = append(all, planned{
			Algorithm: k.Algorithm, State: k.State, CreatedAt: since(k.CreatedAt), PublishedAt: since(k.PublishedAt),
			ActiveAt: since(k.ActiveAt), RetiredAt: since(k.RetiredAt),
			LongestLifetime: k.LongestLifetime, RemoveAt: since(policy.RemoveAt(&k)),
		})
	}
	return all
}

const (
	interval = 720 * time.Hour
	ahead    = time.Hour
	lifetime = 5 * time.Minute
	day      = 24 * time.Hour

	pending  = signingkey.Pending
	active   = signingkey.Active
	retiring = signingkey.Retiring
)

// planStep is one call of Plan and its expected result.
type planStep struct {
	at           time.Duration // since start
	acknowledged bool          // by all token servers
	change       func(*signingkey.Policy)
	wantKeys     []planned
	wantNext     time.Duration
	wantRotation time.Duration
}

func TestPlan(t *testing.T) {
	const (
		created   = interval - ahead          // the first key's successor is created
		served    = created + 3*time.Second   // all token servers publish it
		activated = served + ahead            // it becomes Active
		retired   = activated + 2*time.Second // no token server signs with the first key
		removed   = retired + 10*time.Minute  // the first key is removed: 5m lifetime and 5m skew
		later     = removed + 100*time.Minute // no rotation is in progress
		soon      = time.Minute
	)
	first := planned{Algorithm: signingkey.ES256, State: active, LongestLifetime: lifetime}
	start0 := planStep{acknowledged: true, wantKeys: []planned{first}, wantNext: created, wantRotation: interval}
	second := func(change func(*planned)) planned {
		k := planned{Algorithm: signingkey.ES256, State: pending, CreatedAt: created}
		change(&k)
		return k
	}
	pendingKey := second(func(*planned) {})
	publishedKey := second(func(k *planned) { k.PublishedAt = served })
	activeSecond := second(func(k *planned) {
		k.State, k.PublishedAt, k.ActiveAt, k.LongestLifetime = active, served, activated, lifetime
	})
	retiringKey, retiredKey := first, first
	retiringKey.State = retiring
	retiredKey.State, retiredKey.RetiredAt, retiredKey.RemoveAt = retiring, retired, removed

	useAlgorithm := func(algorithm signingkey.Algorithm) func(*signingkey.Policy) {
		return func(p *signingkey.Policy) { p.Algorithm = algorithm }
	}
	rotateAfter := func(at time.Duration) func(*signingkey.Policy) {
		return func(p *signingkey.Policy) { p.RotateAfter = start.Add(at) }
	}
	tests := map[string][]planStep{
		"first key that is published is active": {start0},
		"complete scheduled rotation": {
			start0,
			{at: created - time.Second, acknowledged: true, wantKeys: []planned{first}, wantNext: created, wantRotation: interval},
			{at: created, wantKeys: []planned{first, pendingKey}, wantRotation: interval},
			{at: created + time.Second, wantKeys: []planned{first, pendingKey}, wantRotation: interval},
			{at: served, acknowledged: true, wantKeys: []planned{first, publishedKey}, wantNext: activated, wantRotation: activated},
			{at: activated - time.Second, acknowledged: true, wantKeys: []planned{first, publishedKey}, wantNext: activated, wantRotation: activated},
			{at: activated, acknowledged: true, wantKeys: []planned{retiringKey, activeSecond}, wantNext: activated + created, wantRotation: activated + interval},
			// The clock steps back.
			{at: created, wantKeys: []planned{retiringKey, activeSecond}, wantNext: activated + created, wantRotation: activated + interval},
			{at: retired, acknowledged: true, wantKeys: []planned{retiredKey, activeSecond}, wantNext: removed, wantRotation: activated + interval},
			{at: removed - time.Second, acknowledged: true, wantKeys: []planned{retiredKey, activeSecond}, wantNext: removed, wantRotation: activated + interval},
			{at: removed, acknowledged: true, wantKeys: []planned{activeSecond}, wantNext: activated + created, wantRotation: activated + interval},
		},
		"no token server acknowledges": {
			start0,
			{at: created, wantKeys: []planned{first, pendingKey}, wantRotation: interval},
			{at: interval + 300*day, wantKeys: []planned{first, pendingKey}, wantRotation: interval},
		},
		"unconfirmed activation waits": {
			start0,
			{at: created, wantKeys: []planned{first, pendingKey}, wantRotation: interval},
			{at: served, acknowledged: true, wantKeys: []planned{first, publishedKey}, wantNext: activated, wantRotation: activated},
			{at: activated, change: unconfirmed, wantKeys: []planned{first, publishedKey}, wantRotation: activated},
			{at: later, change: unconfirmed, wantKeys: []planned{first, publishedKey}, wantRotation: activated},
			{at: activated, wantKeys: []planned{retiringKey, activeSecond}, wantNext: activated + created, wantRotation: activated + interval},
		},
		"no token server acknowledges the retiring key": {
			start0,
			{at: created, wantKeys: []planned{first, pendingKey}, wantRotation: interval},
			{at: served, acknowledged: true, wantKeys: []planned{first, publishedKey}, wantNext: activated, wantRotation: activated},
			{at: activated, acknowledged: true, wantKeys: []planned{retiringKey, activeSecond}, wantNext: activated + created, wantRotation: activated + interval},
			{at: later, wantKeys: []planned{retiringKey, activeSecond}, wantNext: activated + created, wantRotation: activated + interval},
		},
		"late plans skip no state": {
			start0,
			{at: 365 * day, acknowledged: true, wantKeys: []planned{first, second(func(k *planned) { k.CreatedAt = 365 * day })}, wantRotation: 365*day + ahead},
			{
				at: 730 * day, acknowledged: true, wantNext: 730*day + ahead, wantRotation: 730*day + ahead,
				wantKeys: []planned{first, second(func(k *planned) { k.CreatedAt, k.PublishedAt = 365*day, 730*day })},
			},
			{
				at: 1000 * day, acknowledged: true, wantNext: 1000*day + interval - ahead, wantRotation: 1000*day + interval,
				wantKeys: []planned{retiringKey, second(func(k *planned) {
					k.State, k.CreatedAt, k.PublishedAt, k.ActiveAt, k.LongestLifetime = active, 365*day, 730*day, 1000*day, lifetime
				})},
			},
		},
		"longest lifetime is kept": {
			{
				acknowledged: true, change: func(p *signingkey.Policy) { p.TokenLifetime = time.Hour }, wantNext: created, wantRotation: interval,
				wantKeys: []planned{{Algorithm: signingkey.ES256, State: active, LongestLifetime: time.Hour}},
			},
			{
				at: time.Minute, wantNext: created, wantRotation: interval,
				wantKeys: []planned{{Algorithm: signingkey.ES256, State: active, LongestLifetime: time.Hour}},
			},
			{
				at: time.Hour, change: func(p *signingkey.Policy) { p.TokenLifetime = 2 * time.Hour }, wantNext: created, wantRotation: interval,
				wantKeys: []planned{{Algorithm: signingkey.ES256, State: active, LongestLifetime: 2 * time.Hour}},
			},
		},
		"schedule changes while a key is pending": {
			start0,
			{at: created, wantKeys: []planned{first, pendingKey}, wantRotation: interval},
			{at: served, acknowledged: true, wantKeys: []planned{first, publishedKey}, wantNext: activated, wantRotation: activated},
			{
				at: served + time.Minute, acknowledged: true, change: func(p *signingkey.Policy) { p.PublishAhead = 2 * time.Hour },
				wantKeys: []planned{first, publishedKey}, wantNext: served + 2*time.Hour, wantRotation: served + 2*time.Hour,
			},
			{
				at: served + time.Minute, acknowledged: true, change: func(p *signingkey.Policy) { p.RotationInterval = 10000 * time.Hour },
				wantKeys: []planned{first, publishedKey}, wantNext: activated, wantRotation: activated,
			},
		},
		"algorithm changes twice and back": {
			start0,
			{
				at: soon, acknowledged: true, change: useAlgorithm(signingkey.EdDSA), wantRotation: soon + ahead,
				wantKeys: []planned{first, {Algorithm: signingkey.EdDSA, State: pending, CreatedAt: soon}},
			},
			{
				at: 2 * soon, acknowledged: true, change: useAlgorithm(signingkey.EdDSA), wantNext: 2*soon + ahead, wantRotation: 2*soon + ahead,
				wantKeys: []planned{first, {Algorithm: signingkey.EdDSA, State: pending, CreatedAt: soon, PublishedAt: 2 * soon}},
			},
			{ // the pending key is replaced even if it could become Active now
				at: 2 * ahead, acknowledged: true, change: useAlgorithm(signingkey.ES384), wantRotation: 3 * ahead,
				wantKeys: []planned{first, {Algorithm: signingkey.ES384, State: pending, CreatedAt: 2 * ahead}},
			},
			{at: 2*ahead + soon, acknowledged: true, wantKeys: []planned{first}, wantNext: created, wantRotation: interval},
		},
		"rotateAfter, once": {
			start0,
			{at: soon, acknowledged: true, change: rotateAfter(day), wantKeys: []planned{first}, wantNext: day, wantRotation: day + ahead},
			{
				at: day, acknowledged: true, change: rotateAfter(day), wantRotation: day + ahead,
				wantKeys: []planned{first, second(func(k *planned) { k.CreatedAt = day })},
			},
			{
				at: day + soon, acknowledged: true, change: rotateAfter(day), wantNext: day + soon + ahead, wantRotation: day + soon + ahead,
				wantKeys: []planned{first, second(func(k *planned) { k.CreatedAt, k.PublishedAt = day, day+soon })},
			},
			{
				at: 2 * day, acknowledged: true, change: rotateAfter(day), wantNext: 2*day + created, wantRotation: 2*day + interval,
				wantKeys: []planned{retiringKey, second(func(k *planned) {
					k.State, k.CreatedAt, k.PublishedAt, k.ActiveAt, k.LongestLifetime = active, day, day+soon, 2*day, lifetime
				})},
			},
		},
		"rotateAfter before or at creation of the first key": {
			{acknowledged: true, change: rotateAfter(0), wantKeys: []planned{first}, wantNext: created, wantRotation: interval},
			{at: soon, acknowledged: true, change: rotateAfter(-day), wantKeys: []planned{first}, wantNext: created, wantRotation: interval},
		},
		"rotateAfter with a fraction": {
			{acknowledged: true, change: rotateAfter(500 * time.Millisecond), wantKeys: []planned{first}, wantNext: time.Second, wantRotation: ahead + time.Second},
			{
				at: time.Second, acknowledged: true, change: rotateAfter(500 * time.Millisecond), wantRotation: ahead + time.Second,
				wantKeys: []planned{first, second(func(k *planned) { k.CreatedAt = time.Second })},
			},
		},
		"rotateAfter also replaces pending keys": {
			start0,
			{at: created, wantKeys: []planned{first, pendingKey}, wantRotation: interval},
			{
				at: served, acknowledged: true, change: rotateAfter(served + soon), wantNext: served + soon, wantRotation: activated,
				wantKeys: []planned{first, publishedKey},
			},
			{
				at: served + soon, acknowledged: true, change: rotateAfter(served + soon), wantRotation: activated + soon,
				wantKeys: []planned{first, second(func(k *planned) { k.CreatedAt = served + soon })},
			},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			keys, _, err := signingkey.Plan(start, nil, policyOf(steps[0]), generate)
			if err != nil {
				t.Fatal(err)
			}
			runPlan(t, keys, steps)
		})
	}
}

// A realm's first key becomes Active as soon as it is published, or after a minute.
func TestPlanOfFirstKey(t *testing.T) {
	const (
		created = interval - ahead // the successor, after the first key became Active
		soon    = 2 * time.Second
		wait    = signingkey.FirstKeyWait
	)
	key := func(algorithm signingkey.Algorithm, created time.Duration) planned {
		return planned{Algorithm: algorithm, State: pending, CreatedAt: created}
	}
	activated := func(k planned, at time.Duration) planned {
		k.State, k.ActiveAt, k.LongestLifetime = active, at, lifetime
		return k
	}
	first := key(signingkey.ES256, 0)
	published := first
	published.PublishedAt = soon
	start0 := planStep{wantKeys: []planned{first}, wantNext: wait, wantRotation: interval}
	for name, steps := range map[string][]planStep{
		"published": {
			start0,
			{at: soon - time.Second, wantKeys: []planned{first}, wantNext: wait, wantRotation: interval},
			{at: soon, acknowledged: true, wantKeys: []planned{activated(published, soon)}, wantNext: soon + created, wantRotation: soon + interval},
		},
		"not published for a minute": {
			start0,
			{at: wait - time.Second, wantKeys: []planned{first}, wantNext: wait, wantRotation: interval},
			{at: wait, change: unconfirmed, wantKeys: []planned{activated(first, wait)}, wantNext: wait + created, wantRotation: wait + interval},
		},
		"not confirmed": {
			start0,
			{at: soon, acknowledged: true, change: unconfirmed, wantKeys: []planned{published}, wantNext: wait, wantRotation: interval},
			{at: 2 * soon, wantKeys: []planned{activated(published, 2*soon)}, wantNext: 2*soon + created, wantRotation: 2*soon + interval},
		},
		"replaced before it signs": {
			start0,
			{
				at: soon, acknowledged: true, change: func(p *signingkey.Policy) { p.Algorithm = signingkey.EdDSA },
				wantKeys: []planned{key(signingkey.EdDSA, soon)}, wantNext: soon + wait, wantRotation: soon + interval,
			},
		},
	} {
		t.Run(name, func(t *testing.T) { runPlan(t, nil, steps) })
	}
}

func unconfirmed(p *signingkey.Policy) { p.Unconfirmed = true }

func policyOf(s planStep) signingkey.Policy {
	policy := signingkey.Policy{
		Algorithm: signingkey.ES256, RotationInterval: interval, PublishAhead: ahead, TokenLifetime: lifetime, Skew: signingkey.Skew,
	}
	if s.change != nil {
		s.change(&policy)
	}
	return policy
}

func runPlan(t *testing.T, keys []signingkey.Key, steps []planStep) {
	t.Helper()
	for _, s := range steps {
		policy := policyOf(s)
		before := marshal(t, keys)
		given := keys
		if s.acknowledged {
			given = signingkey.Acknowledge(start.Add(s.at-300*time.Millisecond), keys) // rounds up to s.at
		}
		got, next, err := signingkey.Plan(start.Add(s.at+300*time.Millisecond), given, policy, generate)
		if err != nil {
			t.Fatal(err)
		}
		testkit.Diff(t, "keys at "+s.at.String(), s.wantKeys, summary(got, policy))
		if got := since(next); got != s.wantNext {
			t.Fatalf("at %s: the next plan is due %s after start, want %s", s.at, got, s.wantNext)
		}
		if got := since(signingkey.NextRotation(got, policy)); got != s.wantRotation {
			t.Fatalf("at %s: the next rotation is %s after start, want %s", s.at, got, s.wantRotation)
		}
		if !bytes.Equal(marshal(t, keys), before) {
			t.Fatalf("at %s: Plan changed its input", s.at)
		}
		keys = got
	}
}

func generate(algorithm signingkey.Algorithm, now time.Time) (signingkey.Key, error) {
	return signingkey.Generate(algorithm, now, rand.Reader)
}

// The number of keys is bounded even under constant rotation. Rotation continues after the oldest
// key is removed.
func TestPlanLimitsNumberOfKeys(t *testing.T) {
	policy := signingkey.Policy{
		Algorithm: signingkey.ES256, RotationInterval: interval, PublishAhead: 10 * time.Minute, TokenLifetime: day, Skew: signingkey.Skew,
	}
	var keys []signingkey.Key
	now, rotations := start, 0
	plan := func(pause time.Duration, rotateAfter time.Time) {
		now = now.Add(pause)
		policy.RotateAfter = rotateAfter
		got, _, err := signingkey.Plan(now, signingkey.Acknowledge(now, keys), policy, generate)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) > signingkey.MaxKeys {
			t.Fatalf("%d keys, want at most %d", len(got), signingkey.MaxKeys)
		}
		if signingkey.ActiveID(got) != signingkey.ActiveID(keys) {
			rotations++
		}
		keys = got
	}
	for now.Before(start.Add(3 * day)) {
		plan(0, now)                           // creates a successor
		plan(time.Second, time.Time{})         // acknowledges it
		plan(policy.PublishAhead, time.Time{}) // activates it
	}
	if rotations < 2*(signingkey.MaxKeys-2) {
		t.Errorf("only %d rotations in three days", rotations)
	}
}

func TestPlanRejectsUnknownAlgorithm(t *testing.T) {
	if _, _, err := signingkey.Plan(start, nil, signingkey.Policy{Algorithm: "none"}, generate); err == nil {
		t.Error("generated a key for the algorithm none")
	}
}
