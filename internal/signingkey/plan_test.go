package signingkey_test

import (
	"bytes"
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// planned is what a test says of a key: times count from start.
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

// planStep is a plan at a time, for keys that all token servers have acknowledged or not.
type planStep struct {
	at           time.Duration // from start
	acknowledged bool
	change       func(*signingkey.Policy)
	wantKeys     []planned
	wantNext     time.Duration
	wantRotation time.Duration
}

func TestPlan(t *testing.T) {
	const (
		made   = interval - ahead       // when the first key's successor is made
		served = made + 3*time.Second   // when token servers publish it
		signs  = served + ahead         // when it becomes Active
		left   = signs + 2*time.Second  // when no token server signs with the first key any more
		gone   = left + 10*time.Minute  // when the first key is removed: 5m of lifetime, 5m of skew
		later  = gone + 100*time.Minute // when nothing is going on
		soon   = time.Minute
	)
	first := planned{Algorithm: signingkey.ES256, State: active, LongestLifetime: lifetime}
	start0 := planStep{wantKeys: []planned{first}, wantNext: made, wantRotation: interval}
	second := func(change func(*planned)) planned {
		k := planned{Algorithm: signingkey.ES256, State: pending, CreatedAt: made}
		change(&k)
		return k
	}
	waiting := second(func(*planned) {})
	published := second(func(k *planned) { k.PublishedAt = served })
	signing := second(func(k *planned) {
		k.State, k.PublishedAt, k.ActiveAt, k.LongestLifetime = active, served, signs, lifetime
	})
	leaving, left1 := first, first
	leaving.State = retiring
	left1.State, left1.RetiredAt, left1.RemoveAt = retiring, left, gone

	to := func(algorithm signingkey.Algorithm) func(*signingkey.Policy) {
		return func(p *signingkey.Policy) { p.Algorithm = algorithm }
	}
	rotateAfter := func(at time.Duration) func(*signingkey.Policy) {
		return func(p *signingkey.Policy) { p.RotateAfter = start.Add(at) }
	}
	tests := map[string][]planStep{
		"the first key is active at once": {start0},
		"a whole rotation by time": {
			start0,
			{at: made - time.Second, acknowledged: true, wantKeys: []planned{first}, wantNext: made, wantRotation: interval},
			{at: made, wantKeys: []planned{first, waiting}, wantRotation: interval},
			{at: made + time.Second, wantKeys: []planned{first, waiting}, wantRotation: interval},
			{at: served, acknowledged: true, wantKeys: []planned{first, published}, wantNext: signs, wantRotation: signs},
			{at: signs - time.Second, acknowledged: true, wantKeys: []planned{first, published}, wantNext: signs, wantRotation: signs},
			{at: signs, acknowledged: true, wantKeys: []planned{leaving, signing}, wantNext: signs + made, wantRotation: signs + interval},
			{at: left, acknowledged: true, wantKeys: []planned{left1, signing}, wantNext: gone, wantRotation: signs + interval},
			{at: gone - time.Second, acknowledged: true, wantKeys: []planned{left1, signing}, wantNext: gone, wantRotation: signs + interval},
			{at: gone, acknowledged: true, wantKeys: []planned{signing}, wantNext: signs + made, wantRotation: signs + interval},
		},
		"no token server acknowledges": {
			start0,
			{at: made, wantKeys: []planned{first, waiting}, wantRotation: interval},
			{at: interval + 300*day, wantKeys: []planned{first, waiting}, wantRotation: interval},
		},
		"no token server says that it has left the old key": {
			start0,
			{at: made, wantKeys: []planned{first, waiting}, wantRotation: interval},
			{at: served, acknowledged: true, wantKeys: []planned{first, published}, wantNext: signs, wantRotation: signs},
			{at: signs, acknowledged: true, wantKeys: []planned{leaving, signing}, wantNext: signs + made, wantRotation: signs + interval},
			{at: later, wantKeys: []planned{leaving, signing}, wantNext: signs + made, wantRotation: signs + interval},
		},
		"all was missed for a year: nothing is skipped": {
			start0,
			{at: 365 * day, acknowledged: true, wantKeys: []planned{first, second(func(k *planned) { k.CreatedAt = 365 * day })}, wantRotation: 365*day + ahead},
			{
				at: 730 * day, acknowledged: true, wantNext: 730*day + ahead, wantRotation: 730*day + ahead,
				wantKeys: []planned{first, second(func(k *planned) { k.CreatedAt, k.PublishedAt = 365*day, 730*day })},
			},
			{
				at: 1000 * day, acknowledged: true, wantNext: 1000*day + interval - ahead, wantRotation: 1000*day + interval,
				wantKeys: []planned{leaving, second(func(k *planned) {
					k.State, k.CreatedAt, k.PublishedAt, k.ActiveAt, k.LongestLifetime = active, 365*day, 730*day, 1000*day, lifetime
				})},
			},
		},
		"the longest lifetime counts": {
			{
				change: func(p *signingkey.Policy) { p.TokenLifetime = time.Hour }, wantNext: made, wantRotation: interval,
				wantKeys: []planned{{Algorithm: signingkey.ES256, State: active, LongestLifetime: time.Hour}},
			},
			{
				at: time.Minute, wantNext: made, wantRotation: interval,
				wantKeys: []planned{{Algorithm: signingkey.ES256, State: active, LongestLifetime: time.Hour}},
			},
			{
				at: time.Hour, change: func(p *signingkey.Policy) { p.TokenLifetime = 2 * time.Hour }, wantNext: made, wantRotation: interval,
				wantKeys: []planned{{Algorithm: signingkey.ES256, State: active, LongestLifetime: 2 * time.Hour}},
			},
		},
		"the schedule changes while a key waits": {
			start0,
			{at: made, wantKeys: []planned{first, waiting}, wantRotation: interval},
			{at: served, acknowledged: true, wantKeys: []planned{first, published}, wantNext: signs, wantRotation: signs},
			{
				at: served + time.Minute, acknowledged: true, change: func(p *signingkey.Policy) { p.PublishAhead = 2 * time.Hour },
				wantKeys: []planned{first, published}, wantNext: served + 2*time.Hour, wantRotation: served + 2*time.Hour,
			},
			{
				at: served + time.Minute, acknowledged: true, change: func(p *signingkey.Policy) { p.RotationInterval = 10000 * time.Hour },
				wantKeys: []planned{first, published}, wantNext: signs, wantRotation: signs,
			},
		},
		"another algorithm, and another, and back": {
			start0,
			{
				at: soon, acknowledged: true, change: to(signingkey.EdDSA), wantRotation: soon + ahead,
				wantKeys: []planned{first, {Algorithm: signingkey.EdDSA, State: pending, CreatedAt: soon}},
			},
			{
				at: 2 * soon, acknowledged: true, change: to(signingkey.EdDSA), wantNext: 2*soon + ahead, wantRotation: 2*soon + ahead,
				wantKeys: []planned{first, {Algorithm: signingkey.EdDSA, State: pending, CreatedAt: soon, PublishedAt: 2 * soon}},
			},
			{ // also when the time of the other has come
				at: 2 * ahead, acknowledged: true, change: to(signingkey.ES384), wantRotation: 3 * ahead,
				wantKeys: []planned{first, {Algorithm: signingkey.ES384, State: pending, CreatedAt: 2 * ahead}},
			},
			{at: 2*ahead + soon, acknowledged: true, wantKeys: []planned{first}, wantNext: made, wantRotation: interval},
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
				at: 2 * day, acknowledged: true, change: rotateAfter(day), wantNext: 2*day + made, wantRotation: 2*day + interval,
				wantKeys: []planned{leaving, second(func(k *planned) {
					k.State, k.CreatedAt, k.PublishedAt, k.ActiveAt, k.LongestLifetime = active, day, day+soon, 2*day, lifetime
				})},
			},
		},
		"rotateAfter of long ago, or with the first key": {
			{change: rotateAfter(0), wantKeys: []planned{first}, wantNext: made, wantRotation: interval},
			{at: soon, acknowledged: true, change: rotateAfter(-day), wantKeys: []planned{first}, wantNext: made, wantRotation: interval},
		},
		"rotateAfter with a fraction": {
			{change: rotateAfter(500 * time.Millisecond), wantKeys: []planned{first}, wantNext: time.Second, wantRotation: ahead + time.Second},
			{
				at: time.Second, acknowledged: true, change: rotateAfter(500 * time.Millisecond), wantRotation: ahead + time.Second,
				wantKeys: []planned{first, second(func(k *planned) { k.CreatedAt = time.Second })},
			},
		},
		"rotateAfter replaces what waits too": {
			start0,
			{at: made, wantKeys: []planned{first, waiting}, wantRotation: interval},
			{
				at: served, acknowledged: true, change: rotateAfter(served + soon), wantNext: served + soon, wantRotation: signs,
				wantKeys: []planned{first, published},
			},
			{
				at: served + soon, acknowledged: true, change: rotateAfter(served + soon), wantRotation: signs + soon,
				wantKeys: []planned{first, second(func(k *planned) { k.CreatedAt = served + soon })},
			},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) { runPlan(t, steps) })
	}
}

func runPlan(t *testing.T, steps []planStep) {
	t.Helper()
	var keys []signingkey.Key
	for _, s := range steps {
		policy := signingkey.Policy{
			Algorithm: signingkey.ES256, RotationInterval: interval, PublishAhead: ahead, TokenLifetime: lifetime, Skew: signingkey.Skew,
		}
		if s.change != nil {
			s.change(&policy)
		}
		before := marshal(t, keys)
		given := keys
		if s.acknowledged {
			given = signingkey.Acknowledge(start.Add(s.at-300*time.Millisecond), keys) // what begins then counts from the next second
		}
		got, next, err := signingkey.Plan(start.Add(s.at+300*time.Millisecond), given, policy, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.wantKeys, summary(got, policy)); diff != "" {
			t.Fatalf("at %s (-want +got):\n%s", s.at, diff)
		}
		if got := since(next); got != s.wantNext {
			t.Fatalf("at %s: the next plan is %s after start, want %s", s.at, got, s.wantNext)
		}
		if got := since(signingkey.NextRotation(got, policy)); got != s.wantRotation {
			t.Fatalf("at %s: the next rotation is %s after start, want %s", s.at, got, s.wantRotation)
		}
		if !bytes.Equal(marshal(t, keys), before) {
			t.Fatalf("at %s: the plan changed what it was given", s.at)
		}
		keys = got
	}
}

// However often somebody rotates, the number of keys is bounded; when the oldest goes,
// the next rotation comes.
func TestPlanBoundsTheNumberOfKeys(t *testing.T) {
	policy := signingkey.Policy{
		Algorithm: signingkey.ES256, RotationInterval: interval, PublishAhead: 10 * time.Minute, TokenLifetime: day, Skew: signingkey.Skew,
	}
	var keys []signingkey.Key
	now, rotations := start, 0
	plan := func(pause time.Duration, rotateAfter time.Time) {
		now = now.Add(pause)
		policy.RotateAfter = rotateAfter
		got, _, err := signingkey.Plan(now, signingkey.Acknowledge(now, keys), policy, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) > signingkey.MaxKeys {
			t.Fatalf("%d keys", len(got))
		}
		if signingkey.ActiveID(got) != signingkey.ActiveID(keys) {
			rotations++
		}
		keys = got
	}
	for now.Before(start.Add(3 * day)) {
		plan(0, now)                           // a successor is made,
		plan(time.Second, time.Time{})         // acknowledged,
		plan(policy.PublishAhead, time.Time{}) // and signs
	}
	if rotations < 2*(signingkey.MaxKeys-2) {
		t.Errorf("%d rotations in three days", rotations)
	}
}

func TestPlanWithoutARandomSource(t *testing.T) {
	if _, _, err := signingkey.Plan(start, nil, signingkey.Policy{Algorithm: "none"}, rand.Reader); err == nil {
		t.Error("a key of no algorithm was made")
	}
}
