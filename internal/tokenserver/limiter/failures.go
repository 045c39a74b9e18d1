// Package limiter limits authentication failures and the rate of tokens per client. Its memory is
// bounded, and a flood of requests can't reset existing counts.
package limiter

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	// FailureBurst is the number of failures that are allowed at once.
	FailureBurst = 20
	// FailureInterval is the time after which one more failure is allowed.
	FailureInterval = 3 * time.Second

	// The table always has 65,536 slots, which use 1 MiB.
	setCount = 1024
	setSize  = 64

	// sourceBits6 is the prefix length that counts as one IPv6 source, because an attacker with one
	// address usually has the whole network.
	sourceBits6 = 64
)

// Attempt is the key by which failures are counted.
type Attempt struct {
	Realm  string // UID
	Client string // client ID, even if no client has it
	Source netip.Addr
}

// Failures counts authentication failures separately for each Attempt. It allows FailureBurst at
// once and then one per FailureInterval. It is safe for concurrent use.
//
// The table does not grow. The source alone selects the set, so a source that fails for very many
// clients fills only one set. When a set is full, a new attempt takes the slot with the fewest
// failures and continues its count. This is the Space-Saving algorithm (Metwally, Agrawal, El
// Abbadi: "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005, section 3).
// During a flood from the same source a count may be too high, but never too low, so a flood cannot
// reset a count.
type Failures struct {
	seed maphash.Seed
	sets []set
}

type set struct {
	mu    sync.Mutex
	slots [setSize]slot
}

// slot is the failure count of one attempt. It is stored as the theoretical arrival time of the
// generic cell rate algorithm (ITU-T I.371), which is the time at which the count is zero again. A
// slot whose time is in the past is free.
type slot struct {
	attempt            uint64
	theoreticalArrival int64 // in Unix nanoseconds
}

// NewFailures returns a table without failures.
func NewFailures() *Failures {
	return &Failures{seed: maphash.MakeSeed(), sets: make([]set, setCount)}
}

// Count counts a failure and reports whether it is within the limit. Failures beyond the limit do
// not count, so a client that waits can retry.
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

// advance counts one event against a limit of burst events at once and then one per interval. It
// returns the new theoretical arrival time, and whether the event is within the limit.
func advance(theoreticalArrival int64, now time.Time, burst int64, interval time.Duration) (int64, bool) {
	at := now.UnixNano()
	latest := at + burst*int64(interval)
	// The time is later than that if the clock has stepped back or the limit has changed.
	theoreticalArrival = min(max(theoreticalArrival, at), latest)
	if theoreticalArrival+int64(interval) > latest {
		return theoreticalArrival, false
	}
	return theoreticalArrival + int64(interval), true
}

// Undo subtracts a failure that Count added before the attempt turned out to be successful or
// undecided.
func (f *Failures) Undo(a Attempt) {
	id, s := f.find(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := s.slotOf(id); slot.attempt == id {
		slot.theoreticalArrival -= int64(FailureInterval)
	}
}

func (f *Failures) find(a Attempt) (id uint64, s *set) {
	a.Source = network(a.Source)
	return maphash.Comparable(f.seed, a), &f.sets[maphash.Comparable(f.seed, a.Source)%setCount]
}

// slotOf returns the slot of an attempt, or the slot with the fewest failures.
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

// network returns the address under which a source is counted.
func network(source netip.Addr) netip.Addr {
	source = source.Unmap().WithZone("")
	if source.Is6() {
		if prefix, err := source.Prefix(sourceBits6); err == nil {
			return prefix.Addr()
		}
	}
	return source
}
