package ratelimit_test

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
)

var (
	start   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	source1 = netip.MustParseAddr("192.0.2.1")
	source2 = netip.MustParseAddr("192.0.2.2")
	guess   = ratelimit.Attempt{Realm: "acme", Client: "billing", Source: source1}
)

// countAllowed counts failures until one exceeds the limit or 100 have been allowed. It returns the
// number of allowed failures.
func countAllowed(f *ratelimit.Failures, a ratelimit.Attempt, now time.Time) int {
	for n := range 100 {
		if !f.Count(a, now) {
			return n
		}
	}
	return 100
}

func TestFailureLimitRefills(t *testing.T) {
	f := ratelimit.NewFailures()
	for _, step := range []struct {
		name string
		at   time.Duration
		want int
	}{
		{"burst", 0, ratelimit.FailureBurst},
		{"just before the first interval ends", ratelimit.FailureInterval - 1, 0},
		{"after one interval", ratelimit.FailureInterval, 1},
		{"after three more intervals", 4 * ratelimit.FailureInterval, 3},
		{"after a long time", time.Hour, ratelimit.FailureBurst},
		{"after the clock stepped back", 0, 0},
		{"one interval after the clock stepped back", ratelimit.FailureInterval, 1},
	} {
		testkit.Diff(t, step.name, step.want, countAllowed(f, guess, start.Add(step.at)))
	}
}

func TestFailuresAreCountedPerRealmClientAndSource(t *testing.T) {
	with := func(change func(*ratelimit.Attempt)) ratelimit.Attempt {
		a := guess
		change(&a)
		return a
	}
	six := netip.MustParseAddr("2001:db8:1:2::1")
	tests := map[string]struct {
		first, second ratelimit.Attempt
		separate      bool
	}{
		"different realm":              {guess, with(func(a *ratelimit.Attempt) { a.Realm = "other" }), true},
		"different client":             {guess, with(func(a *ratelimit.Attempt) { a.Client = "plain" }), true},
		"different source":             {guess, with(func(a *ratelimit.Attempt) { a.Source = source2 }), true},
		"same concatenation":           {ratelimit.Attempt{Realm: "a", Client: "bc"}, ratelimit.Attempt{Realm: "ab", Client: "c"}, true},
		"different address in the /64": {with(func(a *ratelimit.Attempt) { a.Source = six }), with(func(a *ratelimit.Attempt) { a.Source = six.Next() }), false},
		"different /64":                {with(func(a *ratelimit.Attempt) { a.Source = six }), with(func(a *ratelimit.Attempt) { a.Source = netip.MustParseAddr("2001:db8:1:3::1") }), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := ratelimit.NewFailures()
			countAllowed(f, tc.first, start)
			want := 0
			if tc.separate {
				want = ratelimit.FailureBurst
			}
			testkit.Diff(t, "allowed failures", want, countAllowed(f, tc.second, start))
		})
	}
}

// 100,000 failures for clients that do not exist must not reset any count, whether they come from
// the attacker's source or from many sources. In a flood from one source, the limits of other
// sources are not affected.
func TestFloodResetsNoCount(t *testing.T) {
	for name, tc := range map[string]struct {
		failures  int
		perClient int // consecutive failures for each client
		source    func(i int) netip.Addr
	}{
		"one source":                         {100_000, 1, func(int) netip.Addr { return source1 }},
		"one source, clients at their limit": {100_000, ratelimit.FailureBurst, func(int) netip.Addr { return source1 }},
		"more sources than slots":            {100_000, 1, func(i int) netip.Addr { return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(i)))) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := ratelimit.NewFailures()
			countAllowed(f, guess, start)
			before := heapAlloc()
			now, allowed := start, 0
			for i := range tc.failures {
				f.Count(ratelimit.Attempt{Realm: "acme", Client: "junk-" + strconv.Itoa(i/tc.perClient), Source: tc.source(i)}, now)
				now = now.Add(10 * time.Microsecond) // 100,000 per second
				if i%1000 == 0 && f.Count(guess, now) {
					allowed++
				}
			}
			if limit := int(now.Sub(start)/ratelimit.FailureInterval) + 1; allowed > limit {
				t.Errorf("%d more guesses allowed in %s, want at most %d", allowed, now.Sub(start), limit)
			}
			if grown := int64(heapAlloc()) - int64(before); grown > 1<<20 {
				t.Errorf("the flood used %d bytes of memory", grown)
			}
			if tc.source(0) == tc.source(1) {
				if got := countAllowed(f, ratelimit.Attempt{Realm: "acme", Client: "billing", Source: source2}, now); got != ratelimit.FailureBurst {
					t.Errorf("%d failures allowed from another source, want %d", got, ratelimit.FailureBurst)
				}
			}
			testkit.Diff(t, "allowed failures after the flood", ratelimit.FailureBurst, countAllowed(f, guess, now.Add(time.Hour)))
			runtime.KeepAlive(f)
		})
	}
}

func heapAlloc() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestUndoneFailuresDoNotCount(t *testing.T) {
	f := ratelimit.NewFailures()
	for range 100 {
		if !f.Count(guess, start) {
			t.Fatal("an undone failure counts")
		}
		f.Undo(guess)
	}
	f.Undo(guess) // was never counted
	if got := countAllowed(f, guess, start); got < ratelimit.FailureBurst || got > ratelimit.FailureBurst+1 {
		t.Errorf("%d failures allowed, want %d", got, ratelimit.FailureBurst)
	}
}
