// Package clock provides the time without trusting any single clock. If the machine's clock
// stepped, tokens could be issued in the future, or keys could be removed too early.
//
// The time is the median of three clocks: the machine's, the API server's, and the previous result
// advanced by the kernel's monotonic clock, which never steps.
package clock

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Machine provides the clocks of a machine.
type Machine struct {
	// Wall returns the time of day. It steps when the machine's clock is set.
	Wall func() time.Time
	// Elapsed returns the time since a fixed moment. It never steps.
	Elapsed func() time.Duration
}

// ThisMachine returns the local machine's clocks.
func ThisMachine() Machine {
	return Machine{
		Wall:    func() time.Time { return time.Now().Round(0) }, // Round removes the monotonic reading
		Elapsed: sinceBoot(),
	}
}

// Clock provides the time. It is safe for concurrent use, and Now takes no lock.
type Clock struct {
	machine  Machine
	mu       sync.Mutex                // serializes observations
	observed atomic.Pointer[reference] // nil until the first observation
}

// reference is the state at an observation of the API server's time.
type reference struct {
	elapsed time.Duration // Machine.Elapsed at the observation
	result  time.Time     // the clock's own result
	server  time.Time     // the API server's time
}

// New returns a clock that uses only the machine's clock until the first observation of the API
// server's time.
func New(machine Machine) *Clock {
	return &Clock{machine: machine}
}

// Now returns the median of the three clocks. A step of one clock in either direction has no
// effect. A clock that is corrected is used again after the next observation.
//
// The API server's time lags slightly and has one-second resolution. While the machine's clock is
// within this uncertainty, Now returns the machine's time. The result is therefore off by less than
// two seconds if one clock steps. While the API server is unavailable, its time is extrapolated
// from the last observation.
func (c *Clock) Now() time.Time {
	return c.now(c.observed.Load())
}

func (c *Clock) now(r *reference) time.Time {
	wall := c.machine.Wall()
	if r == nil {
		return wall
	}
	since := c.machine.Elapsed() - r.elapsed
	return median(wall, r.result.Add(since), estimate(r.server.Add(since), wall))
}

const (
	// maxDelay is the longest response time for which the Date header is still useful.
	maxDelay = time.Second
	// uncertainty is how far the API server's clock may be ahead of a Date header: the response
	// takes time to arrive, and the header has one-second resolution.
	uncertainty = maxDelay + time.Second
)

// estimate returns the time of the API server's clock. It returns wall if that is within the
// uncertainty.
func estimate(server, wall time.Time) time.Time {
	if wall.Before(server) || !wall.Before(server.Add(uncertainty)) {
		return server
	}
	return wall
}

func median(a, b, c time.Time) time.Time {
	if b.Before(a) {
		a, b = b, a
	}
	switch {
	case c.Before(a):
		return a
	case c.After(b):
		return b
	}
	return c
}

// Observe records the current time of the API server's clock.
//
// The first observation is trusted, because the machine's clock may have been wrong from the start.
// All processes of an instance therefore start with the same time.
func (c *Clock) Observe(server time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := &reference{elapsed: c.machine.Elapsed(), result: estimate(server, c.machine.Wall()), server: server}
	if last := c.observed.Load(); last != nil {
		updated := *last
		updated.server = server.Add(last.elapsed - next.elapsed) // the new server time, moved back to last.elapsed
		next.result = c.now(&updated)
	}
	c.observed.Store(next)
}

// Transport returns a transport for API server clients. It sends requests with next and observes
// the Date header of each response (RFC 9110 §6.6.1).
func (c *Clock) Transport(next http.RoundTripper) http.RoundTripper {
	return &observer{clock: c, next: next}
}

type observer struct {
	clock *Clock
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o *observer) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := o.clock.machine.Elapsed()
	response, err := o.next.RoundTrip(r)
	if err != nil || o.clock.machine.Elapsed()-sent > maxDelay {
		return response, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		o.clock.Observe(date)
	}
	return response, nil
}

// WrappedRoundTripper returns the wrapped transport. client-go uses it to close idle connections.
func (o *observer) WrappedRoundTripper() http.RoundTripper { return o.next }
