package signingkey_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/internal/clock"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// life is a realm's keys as a test leads them through time: an operator that plans by its
// clock, token servers that take up its records sooner or later, and tokens.
type life struct {
	now     time.Time // the true one
	clock   func() time.Time
	policy  signingkey.Policy
	records []planRecord // the newest last
	loaded  []int        // by token server: the record that it serves
	next    time.Time
	turned  bool // by the last plan another key is Active than before

	rank      map[string]int       // by key id: how far it has come
	published map[string]time.Time // by key id: since when all token servers publish it
	valid     map[string]time.Time // by key id: until when a token that it signed may be valid
}

// planRecord is what token servers load.
type planRecord struct {
	keys     []signingkey.Key
	lifetime time.Duration
}

// ranks are how far a key has come in each state. It never goes back to a lower one.
var ranks = map[signingkey.State]int{signingkey.Pending: 1, signingkey.Active: 2, signingkey.Retiring: 3}

const gone = 4

// newLife begins with a realm's first record, which all token servers have.
func newLife(t *rapid.T, clock func(*life) func() time.Time) *life {
	l := &life{
		now: start, policy: drawPolicy(t), loaded: make([]int, rapid.IntRange(1, 3).Draw(t, "servers")),
		rank: map[string]int{}, published: map[string]time.Time{}, valid: map[string]time.Time{},
	}
	l.clock = clock(l)
	l.plan(t)
	return l
}

// fast are the algorithms whose keys are made in no time.
var fast = []signingkey.Algorithm{signingkey.ES256, signingkey.ES384, signingkey.EdDSA}

func drawPolicy(t *rapid.T) signingkey.Policy {
	interval := time.Duration(rapid.IntRange(60, 3*24*60).Draw(t, "rotationInterval")) * time.Minute
	policy := signingkey.Policy{
		Algorithm:        rapid.SampledFrom(fast).Draw(t, "algorithm"),
		RotationInterval: interval,
		PublishAhead:     time.Duration(rapid.IntRange(10, int(interval/2/time.Minute)).Draw(t, "publishAhead")) * time.Minute,
		TokenLifetime:    time.Duration(rapid.IntRange(10, 24*3600).Draw(t, "tokenLifetime")) * time.Second,
		Skew:             signingkey.Skew,
	}
	if rapid.Bool().Draw(t, "rotateAfter") {
		policy.RotateAfter = start.Add(time.Duration(rapid.Int64Range(int64(-24*time.Hour), int64(10*24*time.Hour)).Draw(t, "at")))
	}
	return policy
}

func (l *life) newest() planRecord { return l.records[len(l.records)-1] }

// plan does what the operator does: it looks, plans, and writes what is new.
func (l *life) plan(t *rapid.T) {
	var keys []signingkey.Key
	now := l.clock()
	if len(l.records) > 0 {
		keys = l.newest().keys
		if l.acknowledged() {
			keys = signingkey.Acknowledge(now, keys)
		}
	}
	got, next, err := signingkey.Plan(now, keys, l.policy, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	again, nextAgain, err := signingkey.Plan(now, got, l.policy, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := encodeKeys(t, got), encodeKeys(t, again); !bytes.Equal(a, b) || !next.Equal(nextAgain) {
		t.Fatalf("planned twice:\n%s\n%s\nnext %s, %s", a, b, next, nextAgain)
	}
	if !next.IsZero() && !next.After(now) {
		t.Fatalf("at %s the next plan is due at %s", now, next)
	}
	l.next = next
	l.turned = len(l.records) > 0 && theActive(t, got).ID != theActive(t, l.newest().keys).ID
	record := planRecord{got, l.policy.TokenLifetime}
	if len(l.records) == 0 || !bytes.Equal(encodeKeys(t, l.newest().keys), encodeKeys(t, got)) || l.newest().lifetime != record.lifetime {
		l.records = append(l.records, record)
		if len(l.records) == 1 {
			l.notePublished()
		}
	}
	l.checkOrder(t)
}

func (l *life) acknowledged() bool {
	return !slices.ContainsFunc(l.loaded, func(n int) bool { return n != len(l.records)-1 })
}

// load lets a token server take up some newer record.
func (l *life) load(t *rapid.T) {
	server := rapid.IntRange(0, len(l.loaded)-1).Draw(t, "server")
	l.loaded[server] = rapid.IntRange(l.loaded[server], len(l.records)-1).Draw(t, "record")
	l.notePublished()
}

// notePublished notes which keys all token servers publish now.
func (l *life) notePublished() {
	for _, k := range l.records[l.loaded[0]].keys {
		if _, known := l.published[k.ID]; !known && l.everyServerHas(k.ID) {
			l.published[k.ID] = l.now
		}
	}
}

func (l *life) everyServerHas(id string) bool {
	return !slices.ContainsFunc(l.loaded, func(n int) bool {
		return !slices.ContainsFunc(l.records[n].keys, func(k signingkey.Key) bool { return k.ID == id })
	})
}

// sign lets each token server sign with its active key, which all of them must publish.
func (l *life) sign(t *rapid.T) {
	for _, n := range l.loaded {
		record := l.records[n]
		id := theActive(t, record.keys).ID
		if _, published := l.published[id]; !published || !l.everyServerHas(id) {
			t.Fatalf("key %s signs, and not every token server publishes it", id)
		}
		if until := l.now.Add(record.lifetime); until.After(l.valid[id]) {
			l.valid[id] = until
		}
	}
}

// theActive returns the one key that signs.
func theActive(t *rapid.T, keys []signingkey.Key) signingkey.Key {
	var found []signingkey.Key
	for _, k := range keys {
		if k.State == signingkey.Active {
			found = append(found, k)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d active keys", len(found))
	}
	return found[0]
}

// checkOrder checks what holds whatever the clock shows.
func (l *life) checkOrder(t *rapid.T) {
	keys := l.newest().keys
	if active := theActive(t, keys); active.LongestLifetime < l.policy.TokenLifetime {
		t.Fatalf("the active key counts with %s and signs for %s", active.LongestLifetime, l.policy.TokenLifetime)
	}
	if len(keys) > signingkey.MaxKeys {
		t.Fatalf("%d keys", len(keys))
	}
	if !slices.IsSortedFunc(keys, func(a, b signingkey.Key) int { return a.CreatedAt.Compare(b.CreatedAt) }) {
		t.Fatal("the keys don't come oldest first")
	}
	listed := map[string]bool{}
	for _, k := range keys {
		listed[k.ID] = true
		if ranks[k.State] < l.rank[k.ID] {
			t.Fatalf("key %s is %s again", k.ID, k.State)
		}
		l.rank[k.ID] = ranks[k.State]
	}
	for id, rank := range l.rank {
		if listed[id] {
			continue
		}
		if rank == ranks[signingkey.Active] {
			t.Fatalf("key %s signed a moment ago and is gone", id)
		}
		l.rank[id] = gone
	}
}

// checkTime checks what must hold by the true time, give or take what clocks are coarse.
func (l *life) checkTime(t *rapid.T, coarse time.Duration) {
	if l.turned {
		id := theActive(t, l.newest().keys).ID
		published, known := l.published[id]
		if ahead := l.now.Sub(published); !known || ahead < l.policy.PublishAhead-coarse {
			t.Fatalf("key %s signs %s after it was published everywhere, want %s", id, ahead, l.policy.PublishAhead)
		}
	}
	for id, until := range l.valid {
		if l.rank[id] == gone && l.now.Before(until.Add(-coarse)) {
			t.Fatalf("at %s key %s is gone, and a token of its is valid until %s", l.now, id, until)
		}
	}
}

func encodeKeys(t *rapid.T, keys []signingkey.Key) []byte {
	data, err := json.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// live takes the realm through some time, in which anything happens in any order.
func (l *life) live(t *rapid.T, check func()) {
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		switch rapid.SampledFrom([]string{"load", "load all", "sign", "change", "pause", "until due"}).Draw(t, "step") {
		case "load":
			l.load(t)
		case "load all":
			for i := range l.loaded {
				l.loaded[i] = len(l.records) - 1
			}
			l.notePublished()
		case "sign":
			l.sign(t)
		case "change":
			l.policy = drawPolicy(t)
		case "pause":
			l.now = l.now.Add(time.Duration(rapid.Int64Range(0, int64(30*time.Hour)).Draw(t, "pause")))
		case "until due":
			if wait := l.next.Sub(l.clock()); wait > 0 {
				l.now = l.now.Add(wait)
			}
		}
		l.plan(t)
		check()
	}
}

// Through any changes of policy, at any times, whenever token servers take up what is
// new: one key signs; but for the first all token servers have published it long enough;
// and none disappears while a token of its may be valid.
func TestPlanNeverLeavesATokenUnverifiable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t, func(l *life) func() time.Time { return func() time.Time { return l.now } })
		l.live(t, func() { l.checkTime(t, time.Second) })
	})
}

// The same holds when one of the clocks steps by up to an hour, either way, between any
// two plans.
func TestPlanByAClockThatIsNotFooled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wall, server time.Duration // how far these clocks are ahead
		l := newLife(t, func(l *life) func() time.Time {
			c := clock.New(clock.Machine{
				Wall:    func() time.Time { return l.now.Add(wall) },
				Elapsed: func() time.Duration { return l.now.Sub(start) },
			})
			return func() time.Time {
				c.Observe(l.now.Add(server).Truncate(time.Second))
				return c.Now()
			}
		})
		wrong := rapid.SampledFrom([]*time.Duration{&wall, &server}).Draw(t, "wrong clock")
		l.live(t, func() {
			l.checkTime(t, 2*time.Second)
			*wrong = time.Duration(rapid.Int64Range(int64(-time.Hour), int64(time.Hour)).Draw(t, "off"))
		})
	})
}

// Even by a clock that steps as it likes exactly one key signs, which all token servers
// publish, no key returns to an earlier state, and a plan made twice changes nothing.
func TestPlanStandsAClockThatSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var off time.Duration
		l := newLife(t, func(l *life) func() time.Time { return func() time.Time { return l.now.Add(off) } })
		l.live(t, func() {
			off = time.Duration(rapid.Int64Range(int64(-time.Hour), int64(time.Hour)).Draw(t, "off"))
		})
	})
}

// Until the next plan is due, planning changes nothing; when it is due, it does. Changes of
// policy in between leave keys that retire beside keys that are to come.
func TestPlanTellsWhenItIsDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t, func(l *life) func() time.Time { return func() time.Time { return l.now } })
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "acknowledged") {
				for i := range l.loaded {
					l.loaded[i] = len(l.records) - 1
				}
			}
			l.plan(t)
			if due := l.next; !due.IsZero() {
				before, version := l.newest(), len(l.records)
				l.now = due.Add(-time.Nanosecond)
				// What is acknowledged is another matter than time.
				got, next, err := signingkey.Plan(l.now, before.keys, l.policy, rand.Reader)
				if err != nil || !bytes.Equal(encodeKeys(t, got), encodeKeys(t, before.keys)) || !next.Equal(due) {
					t.Fatalf("before it was due the plan changed: %v\n%s\n%s", err, encodeKeys(t, before.keys), encodeKeys(t, got))
				}
				l.now = due
				l.plan(t)
				if len(l.records) == version {
					t.Fatal("when it was due the plan changed nothing")
				}
			}
			if rapid.Bool().Draw(t, "change") {
				l.policy = drawPolicy(t)
			}
		}
	})
}
