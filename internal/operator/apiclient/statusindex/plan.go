// Package statusindex plans which index in the status lists of its realm a client has.
//
// A client has one index at a time. It gets another one when its tokensValidAfterTime revokes its tokens,
// because tokens with the same index can't be told apart. A client that is suspended, expired, or not
// Accepted keeps its index. The former index is retired: it is INVALID, and no client gets it before the
// last token that refers to it has expired.
//
// A client holds an index by a record with the name of the index, which only one client can create. The
// client's record then says that its tokens refer to it. Each index of a client has a later serial than the
// one before, and the client's record has the latest serial. An index with this or an earlier serial that
// isn't in the client's record is therefore obsolete for good, even if the record is read from a cache. One
// with a later serial has never been used: it is that of an operator that stopped before it wrote the
// client's record, or is about to.
package statusindex

import (
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
)

const (
	// MaxRetired is the maximum number of indexes of a client that are retired, or that its record never had.
	// "kubectl realmkeeper revoke --secret" needs two of them.
	MaxRetired = 16
	// PerNamespace is how many indexes of a namespace can be retired in addition to twice the number of its
	// clients, those of deleted clients included.
	PerNamespace = 16
)

// None is a value of Facts.Free.
const None = -1

// Facts are what a plan depends on.
type Facts struct {
	// HasList means that tokens of the realm refer to a list, or that such tokens can still be valid.
	HasList bool
	// Current and Serial are StatusIndex and IndexSerial of the client's record.
	Current *record.StatusIndex
	Serial  int64
	// Held are the indexes that the client holds.
	Held []record.Index
	// CurrentLost means that another client holds Current.
	CurrentLost bool
	// ValidAfter is the time before which the client's tokens are revoked; zero if none are. Until it has
	// passed, a client with an index gets no tokens.
	ValidAfter time.Time
	// Suspended means that the client gets no tokens until its spec changes.
	Suspended bool
	// Free is a free index; None if the realm has none.
	Free int
	// NamespaceFull means that too many indexes of the namespace are retired.
	NamespaceFull bool
	// Retention is how long an index stays retired.
	Retention time.Duration
}

// Reason is why a client gets no index.
type Reason string

// Reasons.
const (
	ClientFull    Reason = "client"
	NamespaceFull Reason = "namespace"
	RealmFull     Reason = "realm"
)

// Plan is what a client's index must be.
type Plan struct {
	// Current and Serial are the StatusIndex and IndexSerial that the client's record must have.
	Current *record.StatusIndex
	Serial  int64
	// Create is the index that the client must hold before its record has it; nil if it does. Its owner is
	// not set.
	Create *record.Index
	// Waiting is why the client gets no new index; empty if it needs none. It must not get tokens.
	Waiting Reason
}

// NeedsFree reports whether the client needs a free index.
func NeedsFree(f Facts) bool {
	return f.HasList && !f.Suspended && !f.keeps() && f.unused() == nil
}

// Make plans the index of a client.
func Make(f Facts) Plan {
	switch {
	case !f.HasList:
		return Plan{Serial: f.Serial}
	case f.keeps():
		// If ValidAfter is earlier than it was, later times must be later than this one to revoke tokens.
		current := &record.StatusIndex{Index: f.Current.Index, ValidAfter: f.ValidAfter}
		p := Plan{Current: current, Serial: f.Serial}
		if !slices.ContainsFunc(f.Held, func(h record.Index) bool { return h.Index == current.Index }) { // A user has deleted the record.
			p.Create = &record.Index{StatusIndex: *current, Serial: max(1, f.Serial)}
		}
		return p
	}
	if unused := f.unused(); unused != nil {
		return Plan{Current: &unused.StatusIndex, Serial: unused.Serial}
	}
	p := Plan{Current: f.Current, Serial: f.Serial}
	if f.CurrentLost {
		p.Current = nil
	}
	switch {
	case f.Suspended: // A suspension must not wait for another index.
	case len(f.obsolete(f.Current))+f.abandoned() >= MaxRetired:
		// With this serial, the abandoned ones are obsolete.
		p.Waiting, p.Serial = ClientFull, f.nextSerial()-1
	case f.NamespaceFull:
		p.Waiting = NamespaceFull
	case f.Free == None:
		p.Waiting = RealmFull
	default:
		p.Create = &record.Index{StatusIndex: record.StatusIndex{Index: f.Free, ValidAfter: f.ValidAfter}, Serial: f.nextSerial()}
		p.Current, p.Serial = &p.Create.StatusIndex, p.Create.Serial
	}
	return p
}

// Obsolete returns the held indexes that the client's record doesn't have any longer: those that must be
// retired now, those that must be released because no valid token refers to them, and the time of the next
// release; zero if there is none.
func Obsolete(f Facts, now time.Time) (retire, release []record.Index, next time.Time) {
	for _, h := range f.obsolete(f.Current) {
		switch at := h.RetiredAt.Add(f.Retention); {
		case h.RetiredAt.IsZero():
			retire = append(retire, h)
		case !now.Before(at):
			release = append(release, h)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	return retire, release, next
}

// keeps reports whether the client keeps its index.
func (f *Facts) keeps() bool {
	return f.Current != nil && !f.CurrentLost && !f.ValidAfter.After(f.Current.ValidAfter)
}

// unused returns the latest index that the client holds and whose serial its record doesn't have yet, if the
// client can have it.
func (f *Facts) unused() *record.Index {
	var latest *record.Index
	for _, h := range f.Held {
		if h.Serial > f.Serial && h.RetiredAt.IsZero() && h.ValidAfter.Equal(f.ValidAfter) && (latest == nil || h.Serial > latest.Serial) {
			latest = &h // a copy, because the caller changes Held while the plan is carried out
		}
	}
	return latest
}

// obsolete returns the held indexes that the client's record with the given index never has again.
func (f *Facts) obsolete(current *record.StatusIndex) []record.Index {
	var obsolete []record.Index
	for _, h := range f.Held {
		if (h.Serial <= f.Serial || !h.RetiredAt.IsZero()) && (current == nil || h.Index != current.Index) {
			obsolete = append(obsolete, h)
		}
	}
	return obsolete
}

// abandoned returns the number of held indexes that the client's record never had and, because its
// tokensValidAfterTime has changed, can't have any more. There are many if the record can't be written.
func (f *Facts) abandoned() (n int) {
	for i := range f.Held {
		if h := &f.Held[i]; h.Serial > f.Serial && h.RetiredAt.IsZero() {
			n++
		}
	}
	return n
}

func (f *Facts) nextSerial() int64 {
	serial := f.Serial
	for _, h := range f.Held {
		serial = max(serial, h.Serial)
	}
	return serial + 1
}
