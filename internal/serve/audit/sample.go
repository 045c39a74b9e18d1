package audit

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/serve/source"
)

// SamplePeriod is the time after which every source may cause its number of sampled events again.
const SamplePeriod = time.Minute

// class says whether an event is always written.
type class int

const (
	// decision is an event about a user or about the credential of an existing client. It is always
	// written.
	decision class = iota
	// anonymous is an event about an unknown client or a malformed request. Anyone can cause it.
	anonymous
	// exposed is an event about credentials in a URL. Anyone can cause it too, but it can report a
	// compromised secret. Other events must therefore not use up its allowance.
	exposed
	// repeated is an event about an existing client that failed because its source had failed too
	// often before, or because the server was busy. Only the first one from a source is news.
	repeated

	classes = iota
)

// allowance limits the sampled events of a class in each SamplePeriod.
type allowance struct {
	perOrigin int
	total     int // bounds the table of origins too
}

var allowances = [classes]allowance{
	anonymous: {perOrigin: 20, total: 1000},
	exposed:   {perOrigin: 20, total: 1000},
	repeated:  {perOrigin: 1, total: 4096},
}

func (e *Event) class() class {
	switch {
	case e.Outcome == Granted || e.Actor != "":
		return decision
	case e.Reason == ReasonCredentialsExposed:
		return exposed
	case e.ClientUID == "":
		return anonymous
	case e.Reason == ReasonTooManyFailures || e.Reason == ReasonBusy:
		return repeated
	}
	return decision
}

// origin is where sampled events of a class come from.
type origin struct {
	class  class
	source netip.Addr // a network, because attackers usually control more than one address
	// The following are set only for repeated events, which are sampled per client and reason.
	client string // UID
	reason Reason
}

func (e *Event) origin(c class) origin {
	o := origin{class: c, source: source.Network(e.Source)}
	if c == repeated {
		o.client, o.reason = e.ClientUID, e.Reason
	}
	return o
}

// kind is what suppressed events have in common.
type kind struct {
	outcome Outcome
	reason  Reason
}

// sampler selects the events of the current SamplePeriod that are written. An origin takes memory
// only after one of its events was selected, so the totals bound the memory.
type sampler struct {
	perOrigin  map[origin]int
	total      [classes]int
	suppressed map[kind]uint64
}

func newSampler() sampler {
	return sampler{perOrigin: map[origin]int{}, suppressed: map[kind]uint64{}}
}

// allow reports whether to write the event, which must not be a decision. It counts the event either
// way.
func (s *sampler) allow(e *Event, c class) bool {
	limit, from := allowances[c], e.origin(c)
	if s.total[c] >= limit.total || s.perOrigin[from] >= limit.perOrigin {
		s.suppressed[kind{e.Outcome, e.Reason}]++
		return false
	}
	s.total[c]++
	s.perOrigin[from]++
	return true
}

// reset starts a new period. It returns the number of events suppressed in the last one.
func (s *sampler) reset() map[kind]uint64 {
	suppressed := s.suppressed
	*s = newSampler()
	return suppressed
}

// suppressedEvents returns an event for each kind of suppressed events, in a fixed order.
func suppressedEvents(suppressed map[kind]uint64, now time.Time) []Event {
	kinds := slices.SortedFunc(maps.Keys(suppressed), func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.reason, b.reason), cmp.Compare(a.outcome, b.outcome))
	})
	var events []Event
	for _, k := range kinds {
		events = append(events, Event{Time: now, Action: ActionAudit, Outcome: k.outcome, Reason: k.reason, Suppressed: suppressed[k]})
	}
	return events
}
