package signingkey_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

// model is a realm whose keys are planned over time: an operator that plans with its clock, token
// servers that eventually load records, and tokens.
type model struct {
	now     time.Time // the true time
	clock   func() time.Time
	policy  signingkey.Policy
	records []planRecord // the newest last
	loaded  []int        // index of the record served by each token server; -1 for none
	next    time.Time    // when the next plan is due
	rotated bool         // the last plan replaced the active key
	// confirms means that the operator lets no key become Active while a token server serves an older record.
	confirms bool

	rank      map[string]int       // key ID to the rank of its state
	published map[string]time.Time // key ID to the time since which all token servers have published it
	valid     map[string]time.Time // key ID to the expiration of its last token
}

// planRecord is the part of a record that token servers load.
type planRecord struct {
	keys     []signingkey.Key
	lifetime time.Duration
}

// ranks orders the states of a key. The rank of a key never decreases.
var ranks = map[signingkey.State]int{signingkey.Pending: 1, signingkey.Active: 2, signingkey.Retiring: 3}

const removed = 4

// newModel returns a model with a first record, which no token server has loaded.
func newModel(t *rapid.T, clock func(*model) func() time.Time) *model {
	m := &model{
		now: start, policy: drawPolicy(t), loaded: make([]int, rapid.IntRange(1, 3).Draw(t, "servers")),
		rank: map[string]int{}, published: map[string]time.Time{}, valid: map[string]time.Time{},
	}
	for i := range m.loaded {
		m.loaded[i] = -1
	}
	m.clock = clock(m)
	m.plan(t)
	return m
}

// fastAlgorithms are the algorithms whose keys are fast to generate.
var fastAlgorithms = []signingkey.Algorithm{signingkey.ES256, signingkey.ES384, signingkey.EdDSA}

func drawPolicy(t *rapid.T) signingkey.Policy {
	interval := time.Duration(rapid.IntRange(60, 3*24*60).Draw(t, "rotationInterval")) * time.Minute
	policy := signingkey.Policy{
		Algorithm:        rapid.SampledFrom(fastAlgorithms).Draw(t, "algorithm"),
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

func (m *model) newest() planRecord { return m.records[len(m.records)-1] }

// plan runs the operator once: it reads the newest record, plans, and writes a record if the plan
// changed.
func (m *model) plan(t *rapid.T) {
	var keys []signingkey.Key
	now, policy := m.clock(), m.policy
	if len(m.records) > 0 {
		keys = m.newest().keys
		if m.acknowledged() {
			keys = signingkey.Acknowledge(now, keys)
		}
		policy.Unconfirmed = m.confirms && !m.acknowledged()
	}
	before := signingkey.ActiveID(keys)
	got, next, err := signingkey.Plan(now, keys, policy, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	again, nextAgain, err := signingkey.Plan(now, got, policy, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := encodeKeys(t, got), encodeKeys(t, again); !bytes.Equal(a, b) || !next.Equal(nextAgain) {
		t.Fatalf("planning twice changed the result:\n%s\n%s\nnext %s, %s", a, b, next, nextAgain)
	}
	if !next.IsZero() && !next.After(now) {
		t.Fatalf("at %s the next plan is due at %s, which is not later", now, next)
	}
	m.next = next
	m.rotated = before != "" && signingkey.ActiveID(got) != before
	if m.rotated && policy.Unconfirmed {
		t.Fatalf("key %s becomes Active although a token server serves an older record", signingkey.ActiveID(got))
	}
	record := planRecord{got, m.policy.TokenLifetime}
	if len(m.records) == 0 || !bytes.Equal(encodeKeys(t, m.newest().keys), encodeKeys(t, got)) || m.newest().lifetime != record.lifetime {
		m.records = append(m.records, record)
	}
	m.checkOrder(t)
}

func (m *model) acknowledged() bool {
	return !slices.ContainsFunc(m.loaded, func(n int) bool { return n != len(m.records)-1 })
}

// load makes a token server load a newer record.
func (m *model) load(t *rapid.T) {
	server := rapid.IntRange(0, len(m.loaded)-1).Draw(t, "server")
	m.loaded[server] = rapid.IntRange(max(m.loaded[server], 0), len(m.records)-1).Draw(t, "record")
	m.notePublished()
}

// notePublished records which keys all token servers publish now.
func (m *model) notePublished() {
	if m.loaded[0] < 0 {
		return
	}
	for _, k := range m.records[m.loaded[0]].keys {
		if _, known := m.published[k.ID]; !known && m.everyServerHas(k.ID) {
			m.published[k.ID] = m.now
		}
	}
}

func (m *model) everyServerHas(id string) bool {
	return !slices.ContainsFunc(m.loaded, func(n int) bool {
		return n < 0 || !slices.ContainsFunc(m.records[n].keys, func(k signingkey.Key) bool { return k.ID == id })
	})
}

// sign signs a token on each token server with its active key, which all of them must publish. A first
// key that has waited for a minute is the exception.
func (m *model) sign(t *rapid.T) {
	for _, n := range m.loaded {
		if n < 0 {
			continue
		}
		record := m.records[n]
		active, ok := activeKey(t, record.keys)
		if !ok {
			continue
		}
		id := active.ID
		if _, published := m.published[id]; !active.PublishedAt.IsZero() && (!published || !m.everyServerHas(id)) {
			t.Fatalf("key %s signs but not every token server publishes it", id)
		}
		if until := m.now.Add(record.lifetime); until.After(m.valid[id]) {
			m.valid[id] = until
		}
	}
}

// activeKey returns the only active key; false if there is none, because the first one is Pending.
func activeKey(t *rapid.T, keys []signingkey.Key) (signingkey.Key, bool) {
	var found []signingkey.Key
	pending := 0
	for _, k := range keys {
		switch k.State {
		case signingkey.Active:
			found = append(found, k)
		case signingkey.Pending:
			pending++
		}
	}
	if len(found) > 1 || pending > 1 || len(found)+pending == 0 {
		t.Fatalf("%d active and %d pending keys", len(found), pending)
	}
	if len(found) == 0 {
		return signingkey.Key{}, false
	}
	return found[0], true
}

// checkOrder checks the properties that hold even if the clock is wrong.
func (m *model) checkOrder(t *rapid.T) {
	keys := m.newest().keys
	active, signs := activeKey(t, keys)
	if signs && active.LongestLifetime < m.policy.TokenLifetime {
		t.Fatalf("the active key has longest lifetime %s but signs tokens for %s", active.LongestLifetime, m.policy.TokenLifetime)
	}
	if !signs && slices.Contains(slices.Collect(maps.Values(m.rank)), ranks[signingkey.Active]) {
		t.Fatal("the realm has lost its active key")
	}
	if len(keys) > signingkey.MaxKeys {
		t.Fatalf("%d keys, want at most %d", len(keys), signingkey.MaxKeys)
	}
	if !slices.IsSortedFunc(keys, func(a, b signingkey.Key) int { return a.CreatedAt.Compare(b.CreatedAt) }) {
		t.Fatal("the keys are not sorted by creation")
	}
	listed := map[string]bool{}
	for _, k := range keys {
		listed[k.ID] = true
		if ranks[k.State] < m.rank[k.ID] {
			t.Fatalf("key %s returned to state %s", k.ID, k.State)
		}
		m.rank[k.ID] = ranks[k.State]
	}
	for id, rank := range m.rank {
		if listed[id] {
			continue
		}
		if rank == ranks[signingkey.Active] {
			t.Fatalf("active key %s was removed", id)
		}
		m.rank[id] = removed
	}
}

// checkTime checks the properties that hold in true time, within the tolerance.
func (m *model) checkTime(t *rapid.T, tolerance time.Duration) {
	if m.rotated {
		id := signingkey.ActiveID(m.newest().keys)
		published, known := m.published[id]
		if ahead := m.now.Sub(published); !known || ahead < m.policy.PublishAhead-tolerance {
			t.Fatalf("key %s signs %s after all token servers published it, want %s", id, ahead, m.policy.PublishAhead)
		}
	}
	for id, until := range m.valid {
		if m.rank[id] == removed && m.now.Before(until.Add(-tolerance)) {
			t.Fatalf("at %s key %s is removed but one of its tokens is valid until %s", m.now, id, until)
		}
	}
}

func encodeKeys(t *rapid.T, keys []signingkey.Key) []byte {
	data := testkit.Value(json.Marshal(keys))(t)
	return data
}

// run applies random steps in random order. It calls check after each run of the operator.
func (m *model) run(t *rapid.T, check func()) {
	m.confirms = true
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		switch rapid.SampledFrom([]string{"load", "load all", "sign", "change", "pause", "until due"}).Draw(t, "step") {
		case "load":
			m.load(t)
		case "load all":
			for i := range m.loaded {
				m.loaded[i] = len(m.records) - 1
			}
			m.notePublished()
		case "sign":
			m.sign(t)
		case "change":
			m.policy = drawPolicy(t)
		case "pause":
			m.now = m.now.Add(time.Duration(rapid.Int64Range(0, int64(30*time.Hour)).Draw(t, "pause")))
		case "until due":
			if wait := m.next.Sub(m.clock()); wait > 0 {
				m.now = m.now.Add(wait)
			}
		}
		m.plan(t)
		check()
	}
}

// Policies change and token servers load records at any time. At most one key signs at any time, and one
// does from the first one on. All token servers publish it, and except for the first key, they have done
// so for PublishAhead. No key is removed before all tokens that it signed have expired.
func TestPlanKeepsTokensVerifiable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, func(m *model) func() time.Time { return func() time.Time { return m.now } })
		m.run(t, func() { m.checkTime(t, time.Second) })
	})
}

// Even if the clock steps arbitrarily, at most one key signs, all token servers publish it, no key
// returns to an earlier state, and planning is idempotent.
func TestPlanToleratesClockSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var off time.Duration
		m := newModel(t, func(m *model) func() time.Time { return func() time.Time { return m.now.Add(off) } })
		m.run(t, func() {
			off = time.Duration(rapid.Int64Range(int64(-time.Hour), int64(time.Hour)).Draw(t, "off"))
		})
	})
}
