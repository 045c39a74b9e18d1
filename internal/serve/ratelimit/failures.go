// Package ratelimit limits authentication failures and the rate of tokens per client. Its memory is
// bounded, and a flood of requests can't reset existing counts.
package ratelimit

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/serve/source"
)

const (
	// FailureBurst is the maximum burst of failures.
	FailureBurst = 20
	// FailureInterval is the time after which one more failure is allowed.
	FailureInterval = 3 * time.Second

	// The table always has 65,536 slots, which use 1 MiB.
	setCount = 1024
	setSize  = 64
)

// Attempt is the key for counting failures.
type Attempt struct {
	Realm  string // UID
	Client string // client ID, even if no such client exists
	Source netip.Addr
}

// Failures counts authentication failures separately for each Attempt. It allows a burst of
// FailureBurst failures, then one per FailureInterval. It is safe for concurrent use.
//
// The table does not grow. The set depends only on the source, so a source that fails for very many
// clients fills only one set. When a set is full, a new attempt takes over the slot with the fewest
// failures and continues its count. This is the Space-Saving algorithm (Metwally, Agrawal, El
// Abbadi: "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005, section 3).
// During a flood from the same source, a count may be too high but never too low. A flood therefore
// cannot reset a count.
type Failures struct {
	seed maphash.Seed
	sets []set
}

type set struct {
	mu    sync.Mutex
	slots [setSize]slot
}

// slot is the failure count of one attempt. It is stored as the theoretical arrival time of the
// generic cell rate algorithm (ITU-T I.371), which is when the count returns to zero. A slot is
// free if this time is in the past.
type slot struct {
	attempt            uint64
	theoreticalArrival int64 // in Unix nanoseconds
}

// NewFailures returns a table without failures.
func NewFailures() *Failures {
	return &Failures{seed: maphash.MakeSeed(), sets: make([]set, setCount)}
}

// Count counts a failure and reports whether it is within the limit. Failures beyond the limit
// don't count, so a client that waits can retry.
func (f *Failures) Count(a Attempt, now time.Time) bool {
	id, s := f.find(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.slotOf(id)
	next, ok := advance(slot.theoreticalArrival, now, FailureBurst, FailureInterval)
	slot.theoreticalArrival = next
	if ok {
		slot.attempt = id
	}
	return ok
}

// advance counts one event against a limit that allows a burst of events, then one event per
// interval. It returns the new theoretical arrival time and whether the event is within the limit.
func advance(theoreticalArrival int64, now time.Time, burst int64, interval time.Duration) (int64, bool) {
	at := now.UnixNano()
	latest := at + burst*int64(interval)
	// The stored time is after latest if the clock has stepped back or the limit has changed.
	theoreticalArrival = min(max(theoreticalArrival, at), latest)
	if theoreticalArrival+int64(interval) > latest {
		return theoreticalArrival, false
	}
	return theoreticalArrival + int64(interval), true
}

// Undo subtracts a failure. Call it if an attempt that Count already counted succeeds or ends
// without a result.
func (f *Failures) Undo(a Attempt) {
	id, s := f.find(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := s.slotOf(id); slot.attempt == id {
		slot.theoreticalArrival -= int64(FailureInterval)
	}
}

func (f *Failures) find(a Attempt) (id uint64, s *set) {
	a.Source = source.Network(a.Source)
	return maphash.Comparable(f.seed, a), &f.sets[maphash.Comparable(f.seed, a.Source)%setCount]
}

// slotOf returns the slot of the given attempt or, if it has none, the slot with the fewest
// failures.
func (s *set) slotOf(id uint64) *slot {
	least := &s.slots[0]
	for i := range s.slots {
		slot := &s.slots[i]
		if slot.attempt == id {
			return slot
		}
		if slot.theoreticalArrival < least.theoreticalArrival {
			least = slot
		}
	}
	return least
}
