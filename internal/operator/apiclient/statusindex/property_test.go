//go:build nightly

package statusindex_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/statusindex"
)

const (
	tokenLifetime = time.Minute
	// staleness is the maximum age of what operators and token servers know, and of a write in flight.
	staleness = 30 * time.Second
	hold      = tokenLifetime + 2*staleness
	// fewIndexes is so small that clients get the indexes of others soon.
	fewIndexes = 24
)

// apiClient is an ApiClient as its user has created it.
type apiClient struct {
	uid        types.UID
	generation int64
	validAfter time.Time
}

// realm is the Realm as its user has created it.
type realm struct {
	generation int64
	served     bool // has lists
}

// clientRecord is the record of an ApiClient.
type clientRecord struct {
	version    int
	uid        types.UID
	generation int64
	realm      int64 // generation
	validAfter time.Time
	disabled   bool
	current    *record.StatusIndex
	serial     int64
}

// indexRecord is the record of a held index.
type indexRecord struct {
	record.Index

	version int
}

// state is the content of the API. It does not change.
type state struct {
	at      time.Time // when the next state replaced it
	realm   realm
	clients map[string]apiClient
	records map[string]clientRecord
	indexes map[int]indexRecord
}

// write is a write that an operator has sent. It reports whether the API accepted it.
type write func(*model) bool

// operator is an operator that reconciles one client at a time.
type operator struct {
	// writes are those that follow; only the first is in flight.
	writes []write
	name   string // of the client
	sentAt time.Time
}

// lateWrite is a write in flight whose sender has stopped.
type lateWrite struct {
	write  write
	sentAt time.Time
}

// token is an access token.
type token struct {
	name     string
	uid      types.UID
	index    int
	serial   int64
	issuedAt time.Time
}

// model is an API with its history, two operators that read any recent state of it, and token servers that
// issue tokens from any recent state.
type model struct {
	t         *rapid.T
	now       time.Time
	history   []state
	version   int
	operators [2]operator
	late      []lateWrite
	tokens    map[token]bool
	indexes   int // that a realm can have
	stale     bool
}

func newModel(t *rapid.T, indexes int) *model {
	return &model{t: t, now: now, indexes: indexes, tokens: map[token]bool{}, history: []state{{
		realm: realm{generation: 1, served: true}, clients: map[string]apiClient{}, records: map[string]clientRecord{}, indexes: map[int]indexRecord{},
	}}}
}

func (m *model) latest() state { return m.history[len(m.history)-1] }

// view returns a state that was current at most staleness ago.
func (m *model) view(label string) state {
	if !m.stale {
		return m.latest()
	}
	oldest := len(m.history) - 1
	for oldest > 0 && !m.history[oldest-1].at.Before(m.now.Add(-staleness)) {
		oldest--
	}
	return m.history[rapid.IntRange(oldest, len(m.history)-1).Draw(m.t, label)]
}

// change makes a state the latest.
func (m *model) change(alter func(*state)) {
	s := m.latest()
	m.history[len(m.history)-1].at = m.now
	s = state{realm: s.realm, clients: maps.Clone(s.clients), records: maps.Clone(s.records), indexes: maps.Clone(s.indexes)}
	m.version++
	alter(&s)
	m.history = append(m.history, s)
}

// put writes the record of a client if it has the version that the operator has read; 0 if there is none.
func (m *model) put(name string, version int, desired clientRecord) bool {
	if m.latest().records[name].version != version {
		return false
	}
	m.change(func(s *state) {
		desired.version = m.version
		s.records[name] = desired
	})
	return true
}

// putIndex writes the record of an index under the same condition.
func (m *model) putIndex(version int, desired record.Index) bool {
	if m.latest().indexes[desired.Index].version != version {
		return false
	}
	m.change(func(s *state) { s.indexes[desired.Index] = indexRecord{Index: desired, version: m.version} })
	return true
}

// release deletes the record of an index under the same condition.
func (m *model) release(held indexRecord) bool {
	if m.latest().indexes[held.StatusIndex.Index].version != held.version {
		return false
	}
	m.change(func(s *state) { delete(s.indexes, held.StatusIndex.Index) })
	return true
}

// reconcile reads what a plan depends on and returns the writes that follow.
func (m *model) reconcile(o *operator, name string, live bool) {
	clients, realms, records, indexes := m.view("ApiClients"), m.view("Realm"), m.view("records"), m.view("indexes")
	if live {
		clients, realms, records = m.latest(), m.latest(), m.latest()
	}
	o.name, o.writes = name, nil
	c, exists := clients.clients[name]
	read := records.records[name]
	if read.version != 0 && (!exists || read.uid != c.uid) {
		if m.latest().clients[name].uid == read.uid {
			return // It was created in the meantime.
		}
		version := read.version
		o.writes = append(o.writes, func(m *model) bool {
			if m.latest().records[name].version != version {
				return false
			}
			m.change(func(s *state) { delete(s.records, name) })
			return true
		})
		read = clientRecord{}
	}
	o.writes = append(o.writes, m.orphans(name, indexes)...)
	if !exists || c.generation < read.generation || realms.realm.generation < read.realm {
		return
	}
	facts := statusindex.Facts{HasList: realms.realm.served, Current: read.current, Serial: read.serial, ValidAfter: c.validAfter, Retention: hold, Free: m.free()}
	versions := map[int]int{}
	for i, held := range indexes.indexes {
		if held.UID == c.uid {
			facts.Held = append(facts.Held, held.Index)
			versions[i] = held.version
		}
	}
	slices.SortFunc(facts.Held, func(a, b record.Index) int { return a.Index - b.Index })
	if facts.Current != nil && versions[facts.Current.Index] == 0 {
		if lost := m.latest().indexes[facts.Current.Index]; lost.version != 0 {
			facts.CurrentLost = lost.UID != c.uid
			if !facts.CurrentLost {
				facts.Held = append(facts.Held, lost.Index)
				versions[facts.Current.Index] = lost.version
			}
		}
	}
	facts.NamespaceFull = m.retired() >= statusindex.PerNamespace+2*len(m.latest().clients)
	m.apply(o, name, c, realms.realm.generation, read, facts, versions)
}

// apply appends the writes for a plan, in the order of package apiclient.
func (m *model) apply(o *operator, name string, c apiClient, realm int64, read clientRecord, facts statusindex.Facts, versions map[int]int) {
	plan := statusindex.Make(facts)
	if plan.Waiting != "" && plan.Waiting != statusindex.ClientFull && read.version == 0 {
		return
	}
	if created := plan.Create; created != nil {
		created.UID, created.Name = c.uid, name
		o.writes = append(o.writes, func(m *model) bool {
			if m.latest().indexes[created.Index].version != 0 || !m.putIndex(0, *created) {
				return false
			}
			versions[created.Index] = m.version
			return true
		})
		facts.Held = append(facts.Held, *created)
	}
	desired := clientRecord{
		version: read.version, uid: c.uid, generation: c.generation, realm: realm, validAfter: c.validAfter, disabled: plan.Waiting != "",
		current: plan.Current, serial: plan.Serial,
	}
	if !recordsEqual(desired, read) {
		o.writes = append(o.writes, func(m *model) bool { return m.put(name, read.version, desired) })
	}
	facts.Current, facts.Serial = plan.Current, plan.Serial
	retire, release, _ := statusindex.Obsolete(facts, m.now)
	for _, index := range retire {
		o.writes = append(o.writes, func(m *model) bool {
			index.RetiredAt = m.now
			return m.putIndex(versions[index.Index], index)
		})
	}
	for _, index := range release {
		o.writes = append(o.writes, func(m *model) bool { return m.release(indexRecord{index, versions[index.Index]}) })
	}
}

func recordsEqual(a, b clientRecord) bool {
	sameIndex := a.current == b.current || a.current != nil && b.current != nil && *a.current == *b.current
	a.current, b.current = nil, nil
	return sameIndex && a == b
}

// orphans returns the writes for the indexes of deleted clients with a name.
func (m *model) orphans(name string, seen state) (writes []write) {
	for _, i := range slices.Sorted(maps.Keys(seen.indexes)) {
		held := seen.indexes[i]
		if held.Name != name || m.latest().clients[name].uid == held.UID {
			continue
		}
		if held.RetiredAt.IsZero() {
			writes = append(writes, func(m *model) bool {
				retired := held.Index
				retired.RetiredAt = m.now
				return m.putIndex(held.version, retired)
			})
		} else if !m.now.Before(held.RetiredAt.Add(hold)) {
			writes = append(writes, func(m *model) bool { return m.release(held) })
		}
	}
	return writes
}

// free returns an index that is free in a recent state.
func (m *model) free() int {
	seen := m.view("free indexes")
	var free []int
	for i := range m.indexes {
		if seen.indexes[i].version == 0 {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return statusindex.None
	}
	return rapid.SampledFrom(free).Draw(m.t, "free index")
}

// retired returns the number of retired indexes.
func (m *model) retired() int {
	return m.count(func(held record.Index) bool { return !held.RetiredAt.IsZero() })
}

// retiredOf returns the number of the retired indexes of a client.
func (m *model) retiredOf(uid types.UID) int {
	return m.count(func(held record.Index) bool { return held.UID == uid && !held.RetiredAt.IsZero() })
}

func (m *model) count(counts func(record.Index) bool) (n int) {
	for _, held := range m.latest().indexes {
		if counts(held.Index) {
			n++
		}
	}
	return n
}

// step lets the operator's next write land. If it fails, the operator gives up.
func (m *model) step(o *operator) {
	next := o.writes[0]
	o.writes = o.writes[1:]
	o.sentAt = m.now
	if !next(m) {
		o.writes = nil
	}
	m.check()
}

// finish reconciles a client without faults, as often as something changes.
func (m *model) finish(name string) {
	stale := m.stale
	m.stale = false
	defer func() { m.stale = stale }()
	for range 10 {
		var o operator
		m.reconcile(&o, name, true)
		if len(o.writes) == 0 {
			m.checkFinished(name)
			return
		}
		for len(o.writes) > 0 {
			m.step(&o)
		}
	}
	m.t.Fatalf("the operator is still writing the records of %s: %+v", name, m.latest())
}

// issue issues the tokens that a server can issue from a recent state.
func (m *model) issue() {
	seen := m.view("token server")
	for name, r := range seen.records {
		if r.current != nil && !r.disabled && !m.now.Before(r.validAfter) {
			m.tokens[token{name: name, uid: r.uid, index: r.current.Index, serial: r.serial, issuedAt: m.now.Truncate(time.Second)}] = true
		}
	}
}

// pass lets time pass. Nothing stays in flight, and no reconcile waits, for longer than staleness.
func (m *model) pass(d time.Duration) {
	for ; d > 0; d -= staleness / 2 {
		m.issue()
		m.now = m.now.Add(min(d, staleness/2))
		m.late = slices.DeleteFunc(m.late, func(w lateWrite) bool { return m.now.Sub(w.sentAt) > staleness })
		for i := range m.operators {
			if o := &m.operators[i]; m.now.Sub(o.sentAt) > staleness {
				o.writes = nil
			}
		}
		maps.DeleteFunc(m.tokens, func(t token, _ bool) bool { return !m.now.Before(t.issuedAt.Add(tokenLifetime)) })
		for _, name := range names {
			m.finish(name)
		}
		m.check()
	}
}

// isInvalid reports whether the index is INVALID in a list of the latest state.
func (m *model) isInvalid(index int) bool {
	s := m.latest()
	for _, r := range s.records {
		if r.current != nil && r.current.Index == index {
			return r.disabled || r.current.ValidAfter.Before(r.validAfter)
		}
	}
	return s.indexes[index].version != 0
}

// checkFinished checks the index of a client after all writes.
func (m *model) checkFinished(name string) {
	s := m.latest()
	c, r := s.clients[name], s.records[name]
	waits := c.uid != "" && (r.version == 0 || r.disabled)
	switch {
	case c.uid == "" && r.version != 0:
		m.t.Fatalf("the record of %s is not deleted", name)
	case c.uid == "" || waits || c.validAfter.After(m.now):
	case s.realm.served != (r.current != nil):
		m.t.Fatalf("%s has index %v, although the realm has lists: %t", name, r.current, s.realm.served)
	case r.current != nil && m.isInvalid(r.current.Index):
		m.t.Fatalf("I4: %s can get tokens, but its index is INVALID: %+v", name, r)
	}
	if waits && m.retiredOf(c.uid) < statusindex.MaxRetired && m.retired() < statusindex.PerNamespace+2*len(s.clients) && len(s.indexes) < m.indexes {
		m.t.Fatalf("%s waits for an index without a reason", name)
	}
}

func (m *model) check() {
	s := m.latest()
	holders := map[int]string{}
	for name, r := range s.records {
		if r.current == nil {
			continue
		}
		if other := holders[r.current.Index]; other != "" {
			m.t.Fatalf("I1: the records of %s and %s have index %d", name, other, r.current.Index)
		}
		holders[r.current.Index] = name
		// The index of a deleted client can be retired before its record is deleted, if the cache lags.
		exists := s.clients[name].uid == r.uid
		if held := s.indexes[r.current.Index]; held.UID != r.uid || held.Serial > r.serial || exists && !held.RetiredAt.IsZero() {
			m.t.Fatalf("I1: the record of %s has index %d, but the holder is %+v", name, r.current.Index, held)
		}
	}
	for uid := range m.tooMany() {
		m.t.Fatalf("%s holds too many indexes: %+v", uid, s.indexes)
	}
	for t := range m.tokens {
		if held := s.indexes[t.index]; held.UID != t.uid || held.Serial != t.serial {
			m.t.Fatalf("I2: a valid token refers to %+v, but the holder is %+v", t, held)
		}
		r := s.records[t.name]
		if (r.uid != t.uid || t.issuedAt.Before(r.validAfter)) && !m.isInvalid(t.index) {
			m.t.Fatalf("I3: a token is revoked, but its index is VALID: %+v, record %+v", t, r)
		}
	}
}

// tooMany returns the clients that hold more indexes than they can. Stale operators don't know how many
// they hold.
func (m *model) tooMany() map[types.UID]int {
	held := map[types.UID]int{}
	if !m.stale {
		for _, index := range m.latest().indexes {
			held[index.UID]++
		}
	}
	maps.DeleteFunc(held, func(_ types.UID, n int) bool { return n <= 1+statusindex.MaxRetired+len(m.operators) })
	return held
}

var names = []string{"billing", "orders", "stock"}

// act takes a random step.
func (m *model) act() {
	name := rapid.SampledFrom(names).Draw(m.t, "client")
	o := &m.operators[rapid.IntRange(0, 1).Draw(m.t, "operator")]
	c, exists := m.latest().clients[name]
	switch what := rapid.SampledFrom([]string{"reconcile", "reconcile", "write", "write", "write", "crash", "late", "user", "user", "realm", "token", "time", "long"}).Draw(m.t, "what"); {
	case what == "reconcile" && len(o.writes) == 0:
		m.reconcile(o, name, rapid.Bool().Draw(m.t, "live"))
		o.sentAt = m.now
	case what == "write" && len(o.writes) > 0:
		m.step(o)
	case what == "crash" && len(o.writes) > 0:
		m.late = append(m.late, lateWrite{o.writes[0], o.sentAt})
		o.writes = nil
	case what == "late" && len(m.late) > 0:
		w := m.late[0]
		m.late = m.late[1:]
		w.write(m)
		m.check()
	case what == "user" && !exists:
		m.change(func(s *state) {
			s.clients[name] = apiClient{uid: types.UID(fmt.Sprintf("%s %d", name, m.version)), generation: 1}
		})
	case what == "user" && rapid.IntRange(0, 2).Draw(m.t, "deletes") == 0:
		m.change(func(s *state) { delete(s.clients, name) })
	case what == "user":
		after := rapid.SampledFrom([]time.Time{m.now, m.now.Add(5 * time.Second), m.now.Add(-5 * time.Second), {}}).Draw(m.t, "tokensValidAfterTime")
		m.change(func(s *state) { s.clients[name] = apiClient{c.uid, c.generation + 1, after} })
	case what == "realm":
		m.change(func(s *state) { s.realm = realm{s.realm.generation + 1, !s.realm.served} })
	case what == "token":
		m.issue()
	case what == "time":
		m.pass(time.Second)
	case what == "long":
		m.pass(rapid.SampledFrom([]time.Duration{staleness, tokenLifetime, hold}).Draw(m.t, "time"))
	}
}

// The operators see any recent state, their writes land late or after they have crashed, and token servers
// lag. Still, no token refers to the index of another client or another generation.
func TestIndexesAreNotReused(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt, fewIndexes)
		m.stale = true
		for range rapid.IntRange(50, 200).Draw(rt, "steps") {
			m.act()
		}
	})
}

// A tenant who changes tokensValidAfterTime every second, and who deletes and creates clients, can't use up
// the indexes of the realm, even if operators crash.
func TestIndexesAreBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt, 100)
		for range rapid.IntRange(50, 150).Draw(rt, "steps") {
			name := rapid.SampledFrom(names).Draw(rt, "client")
			c := m.latest().clients[name]
			deletes := c.uid != "" && rapid.IntRange(0, 9).Draw(rt, "deletes") == 0
			m.change(func(s *state) {
				switch {
				case deletes:
					delete(s.clients, name)
				case c.uid == "":
					s.clients[name] = apiClient{uid: types.UID(fmt.Sprintf("%s %d", name, m.version)), generation: 1}
				default:
					s.clients[name] = apiClient{c.uid, c.generation + 1, m.now}
				}
			})
			o := &m.operators[0]
			m.reconcile(o, name, true)
			for range rapid.IntRange(0, 6).Draw(rt, "writes before a crash") {
				if len(o.writes) > 0 {
					m.step(o)
				}
			}
			m.now = m.now.Add(time.Second)
			// In addition to those that count, clients hold their current index and those that they never had.
			if retired, limit := m.retired(), statusindex.PerNamespace+2*len(names)+len(names)*(1+statusindex.MaxRetired); retired > limit {
				rt.Fatalf("%d indexes are retired, more than %d", retired, limit)
			}
		}
		m.tokens = nil
		for range 4 { // Indexes are retired and released, the client gets another one, and so on.
			m.now = m.now.Add(time.Hour)
			for _, name := range names {
				m.finish(name)
			}
		}
		if held, want := len(m.latest().indexes), len(m.latest().clients); held != want {
			rt.Errorf("%d indexes are held in the end, want %d: %+v", held, want, m.latest().indexes)
		}
	})
}
