// Package limiter tells who asks too often: who fails to authenticate again and again, and
// who gets more tokens than it may. Its memory is bounded, and a flood doesn't make it forget.
package limiter

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	// FailureBurst is how many failures are let through at once.
	FailureBurst = 20
	// FailureInterval is how long it takes until one more is.
	FailureInterval = 3 * time.Second

	// The table: a mebibyte of slots, whatever comes.
	setCount = 1024
	setSize  = 64

	// A source of IPv6 is a network of this size: whoever has one address has as many of it as they like.
	sourceBits6 = 64
)

// Attempt is what failures are counted by.
type Attempt struct {
	Realm  string // UID
	Client string // client_id, whether there is such a client or not
	Source netip.Addr
}

// Failures counts failures to authenticate, each kind of Attempt for itself: FailureBurst at
// once, and then one each FailureInterval. It is safe for concurrent use.
//
// The table doesn't grow. Its sets are chosen by the source alone, so that a source that
// fails for very many clients fills its own set. When a set is full, a new attempt takes the slot
// with the fewest failures and goes on from its count (Metwally, Agrawal, El Abbadi: "Efficient
// Computation of Frequent and Top-k Elements in Data Streams", 2005, section 3: Space-Saving). So a
// count may be too high in a flood of the same source, but never too low: no flood resets it.
type Failures struct {
	seed maphash.Seed
	sets []set
}

type set struct {
	mu    sync.Mutex
	slots [setSize]slot
}

// slot is the count of one attempt, as the instant at which all of it is forgiven (the
// theoretical arrival time of ITU-T I.371's generic cell rate algorithm). A slot of the past is free.
type slot struct {
	attempt  uint64
	forgiven int64 // nanoseconds since 1970
}

// NewFailures returns a table in which nobody has failed.
func NewFailures() *Failures {
	return &Failures{seed: maphash.MakeSeed(), sets: make([]set, setCount)}
}

// Count counts a failure and reports whether it is let through. One that isn't doesn't
// count, so that who waits gets on.
func (f *Failures) Count(a Attempt, now time.Time) bool {
	id, s := f.find(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.slotOf(id)
	forgiven, ok := spend(slot.forgiven, now, FailureBurst, FailureInterval)
	slot.forgiven = forgiven
	if ok {
		slot.attempt = id
	}
	return ok
}

// spend counts one more, where burst at once and then one each interval are let through. It
// returns from when on all is forgiven, and whether the one is let through.
func spend(forgiven int64, now time.Time, burst int64, interval time.Duration) (int64, bool) {
	at := now.UnixNano()
	most := at + burst*int64(interval)
	// It can be more than that when the clock has stepped back, or the limit was another.
	forgiven = min(max(forgiven, at), most)
	if forgiven+int64(interval) > most {
		return forgiven, false
	}
	return forgiven + int64(interval), true
}

// TakeBack takes back one failure that was counted before it was known to be none.
func (f *Failures) TakeBack(a Attempt) {
	id, s := f.find(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := s.slotOf(id); slot.attempt == id {
		slot.forgiven -= int64(FailureInterval)
	}
}

func (f *Failures) find(a Attempt) (id uint64, s *set) {
	a.Source = network(a.Source)
	return maphash.Comparable(f.seed, a), &f.sets[maphash.Comparable(f.seed, a.Source)%setCount]
}

// slotOf returns the slot of an attempt, or the one that it would take.
func (s *set) slotOf(id uint64) *slot {
	least := &s.slots[0]
	for i := range s.slots {
		slot := &s.slots[i]
		if slot.attempt == id {
			return slot
		}
		if slot.forgiven < least.forgiven {
			least = slot
		}
	}
	return least
}

// network returns what counts as one source.
func network(source netip.Addr) netip.Addr {
	source = source.Unmap().WithZone("")
	if source.Is6() {
		if prefix, err := source.Prefix(sourceBits6); err == nil {
			return prefix.Addr()
		}
	}
	return source
}
