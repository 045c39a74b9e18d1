package limiter_test

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/limiter"
)

var (
	start  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	here   = netip.MustParseAddr("192.0.2.1")
	there  = netip.MustParseAddr("192.0.2.2")
	guess  = limiter.Attempt{Realm: "acme", Client: "billing", Source: here}
	second = time.Second
)

// letThrough counts failures until one isn't let through, at most 100.
func letThrough(f *limiter.Failures, a limiter.Attempt, now time.Time) int {
	for n := range 100 {
		if !f.Count(a, now) {
			return n
		}
	}
	return 100
}

func TestFailures(t *testing.T) {
	f := limiter.NewFailures()
	for _, step := range []struct {
		name string
		at   time.Duration
		want int
	}{
		{"at once", 0, limiter.FailureBurst},
		{"a moment before the next", limiter.FailureInterval - 1, 0},
		{"the next", limiter.FailureInterval, 1},
		{"after three intervals", 4 * limiter.FailureInterval, 3},
		{"after a long time", time.Hour, limiter.FailureBurst},
		{"the clock has stepped back", 0, 0},
		{"and goes on", limiter.FailureInterval, 1},
	} {
		if got := letThrough(f, guess, start.Add(step.at)); got != step.want {
			t.Errorf("%s: %d are let through, want %d", step.name, got, step.want)
		}
	}
}

// Each realm, client and source counts for itself.
func TestFailuresOfOthers(t *testing.T) {
	with := func(change func(*limiter.Attempt)) limiter.Attempt {
		a := guess
		change(&a)
		return a
	}
	six := netip.MustParseAddr("2001:db8:1:2::1")
	tests := map[string]struct {
		first, second limiter.Attempt
		apart         bool
	}{
		"another realm":            {guess, with(func(a *limiter.Attempt) { a.Realm = "other" }), true},
		"another client":           {guess, with(func(a *limiter.Attempt) { a.Client = "plain" }), true},
		"another source":           {guess, with(func(a *limiter.Attempt) { a.Source = there }), true},
		"the realm in the client":  {limiter.Attempt{Realm: "a", Client: "bc"}, limiter.Attempt{Realm: "ab", Client: "c"}, true},
		"no source":                {guess, with(func(a *limiter.Attempt) { a.Source = netip.Addr{} }), true},
		"the same":                 {guess, guess, false},
		"IPv4 as IPv6":             {guess, with(func(a *limiter.Attempt) { a.Source = netip.MustParseAddr("::ffff:192.0.2.1") }), false},
		"another address of a /64": {with(func(a *limiter.Attempt) { a.Source = six }), with(func(a *limiter.Attempt) { a.Source = six.Next() }), false},
		"another zone":             {with(func(a *limiter.Attempt) { a.Source = six }), with(func(a *limiter.Attempt) { a.Source = six.WithZone("eth0") }), false},
		"another /64":              {with(func(a *limiter.Attempt) { a.Source = six }), with(func(a *limiter.Attempt) { a.Source = netip.MustParseAddr("2001:db8:1:3::1") }), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := limiter.NewFailures()
			letThrough(f, tc.first, start)
			want := 0
			if tc.apart {
				want = limiter.FailureBurst
			}
			if got := letThrough(f, tc.second, start); got != want {
				t.Errorf("%d are let through, want %d", got, want)
			}
		})
	}
}

// A million failures for clients that don't exist make nobody's count go back, whether they
// come from the guesser's own source or from everywhere, and nobody else of a flood's source pays but with failures.
func TestFloodOfJunk(t *testing.T) {
	for name, tc := range map[string]struct {
		junk   int
		times  int // that each name fails in a row
		source func(i int) netip.Addr
	}{
		"from one source":           {1_000_000, 1, func(int) netip.Addr { return here }},
		"each as hot as the guess":  {200_000, limiter.FailureBurst, func(int) netip.Addr { return here }},
		"from more than have slots": {200_000, 1, func(i int) netip.Addr { return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(i)))) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := limiter.NewFailures()
			letThrough(f, guess, start)
			before := memory()
			now, let := start, 0
			for i := range tc.junk {
				f.Count(limiter.Attempt{Realm: "acme", Client: "junk-" + strconv.Itoa(i/tc.times), Source: tc.source(i)}, now)
				now = now.Add(10 * time.Microsecond) // 100,000 a second
				if i%1000 == 0 && f.Count(guess, now) {
					let++
				}
			}
			if most := int(now.Sub(start)/limiter.FailureInterval) + 1; let > most {
				t.Errorf("%d more guesses are let through in %s, want at most %d", let, now.Sub(start), most)
			}
			if grown := int64(memory()) - int64(before); grown > 1<<20 {
				t.Errorf("the flood takes %d bytes", grown)
			}
			if tc.source(0) == tc.source(1) {
				if got := letThrough(f, limiter.Attempt{Realm: "acme", Client: "billing", Source: there}, now); got != limiter.FailureBurst {
					t.Errorf("of another source %d are let through", got)
				}
			}
			if got := letThrough(f, guess, now.Add(time.Hour)); got != limiter.FailureBurst {
				t.Errorf("after the flood %d are let through", got)
			}
			runtime.KeepAlive(f)
		})
	}
}

func memory() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestTakeBack(t *testing.T) {
	f := limiter.NewFailures()
	for range 100 {
		if !f.Count(guess, start) {
			t.Fatal("what was taken back counts")
		}
		f.TakeBack(guess)
	}
	f.TakeBack(guess) // never counted
	if got := letThrough(f, guess, start); got < limiter.FailureBurst || got > limiter.FailureBurst+1 {
		t.Errorf("%d are let through, want %d", got, limiter.FailureBurst)
	}
}

func TestConcurrentFailures(t *testing.T) {
	f := limiter.NewFailures()
	var (
		failing sync.WaitGroup
		mu      sync.Mutex
		let     int
	)
	for range 8 {
		failing.Go(func() {
			n := letThrough(f, guess, start)
			mu.Lock()
			let += n
			mu.Unlock()
		})
	}
	failing.Wait()
	if let != limiter.FailureBurst {
		t.Errorf("%d are let through at once, want %d", let, limiter.FailureBurst)
	}
}

func TestPace(t *testing.T) {
	p := limiter.NewPace()
	allowed := func(client string, perSecond int32, at time.Duration) int {
		for n := range 100 {
			if !p.Allow(client, perSecond, start.Add(at)) {
				return n
			}
		}
		return 100
	}
	for _, step := range []struct {
		name, client string
		perSecond    int32
		at           time.Duration
		want         int
	}{
		{"at once", "a", 5, 0, 5},
		{"another client", "b", 5, 0, 5},
		{"no limit", "c", 0, 0, 100},
		{"a fifth of a second later", "a", 5, second / 5, 1},
		{"a second later", "a", 5, second + second/5, 5},
		{"a higher limit counts at once", "a", 50, second + second/5, 0},
		{"and from then on", "a", 50, second + 2*second/5, 10},
		{"one a second", "d", 1, 0, 1},
		{"the clock has stepped back", "d", 1, -time.Hour, 0},
		{"and goes on", "d", 1, -time.Hour + second, 1},
	} {
		if got := allowed(step.client, step.perSecond, step.at); got != step.want {
			t.Errorf("%s: %d allowed, want %d", step.name, got, step.want)
		}
	}
}

// Clients that come and go leave nothing behind.
func TestPaceForgets(t *testing.T) {
	p := limiter.NewPace()
	for i := range 100_000 {
		p.Allow(strconv.Itoa(i), 1, start.Add(time.Duration(i)*time.Millisecond))
	}
	if got := p.Size(); got > 4096 {
		t.Errorf("%d clients are remembered, of 1,000 that asked within the last second", got)
	}
}
