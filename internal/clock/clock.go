// Package clock tells the time when one clock can't be trusted: that of the machine may
// step, and then tokens would be from the future, or keys be dropped too early.
//
// Three clocks are asked and two of them believed: the machine's, the API server's, and
// the one that goes on from what was believed before, by the kernel's monotonic clock,
// which never steps.
package clock

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Machine is where a Clock takes the machine's time from.
type Machine struct {
	// Wall is the time of day. It steps when somebody sets it.
	Wall func() time.Time
	// Elapsed is the time since some fixed moment of this process. It never steps.
	Elapsed func() time.Duration
}

// ThisMachine returns the clocks of the machine that the process runs on.
func ThisMachine() Machine {
	return Machine{
		Wall:    func() time.Time { return time.Now().Round(0) }, // Round takes off the monotonic reading
		Elapsed: sinceBoot(),
	}
}

// Clock tells the time. It is safe for concurrent use, and Now takes no lock.
type Clock struct {
	machine  Machine
	mu       sync.Mutex                // serializes observations
	observed atomic.Pointer[reference] // nil before the first
}

// reference is what was known at an observation of the API server's time.
type reference struct {
	elapsed  time.Duration // of the machine, at that moment
	believed time.Time
	server   time.Time
}

// New returns a clock that goes by the machine alone until it has heard from the API server.
func New(machine Machine) *Clock {
	return &Clock{machine: machine}
}

// Now returns the time that two of the three clocks agree on: the one in the middle. What
// steps alone, in either direction, makes no difference, and a clock that is set right is
// believed at the next observation.
//
// The API server's time comes in whole seconds and late. As long as the machine's clock
// is no further from it than that, the machine's is the answer; so the answer is off by less than
// two seconds whatever steps. Without the API server time goes on from its last word.
func (c *Clock) Now() time.Time {
	return c.now(c.observed.Load())
}

func (c *Clock) now(r *reference) time.Time {
	wall := c.machine.Wall()
	if r == nil {
		return wall
	}
	since := c.machine.Elapsed() - r.elapsed
	return middle(wall, r.believed.Add(since), vote(r.server.Add(since), wall))
}

const (
	// slow is how long an answer takes that says too little of the time now.
	slow = time.Second
	// coarse is how far the true time may be past what an answer says: it came late, and
	// says whole seconds.
	coarse = slow + time.Second
)

// vote is what the API server's clock may show for all that is known, which is wall if
// that can be.
func vote(server, wall time.Time) time.Time {
	if wall.Before(server) || !wall.Before(server.Add(coarse)) {
		return server
	}
	return wall
}

func middle(a, b, c time.Time) time.Time {
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

// Observe takes what the API server's clock shows now.
//
// Of a machine whose clock was wrong from the beginning nothing is known but this: so the
// first observation is believed, and all processes of an instance begin with one time.
func (c *Clock) Observe(server time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := &reference{elapsed: c.machine.Elapsed(), believed: vote(server, c.machine.Wall()), server: server}
	if before := c.observed.Load(); before != nil {
		heard := *before
		heard.server = server.Add(before.elapsed - next.elapsed) // as if it had been heard then
		next.believed = c.now(&heard)
	}
	c.observed.Store(next)
}

// Transport returns a transport that sends requests by next and observes the time of
// each answer: the Date header (RFC 9110 §6.6.1). It is for the API server's client.
func (c *Clock) Transport(next http.RoundTripper) http.RoundTripper {
	return &observer{clock: c, next: next}
}

type observer struct {
	clock *Clock
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o *observer) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := o.clock.machine.Elapsed()
	answer, err := o.next.RoundTrip(r)
	if err != nil || o.clock.machine.Elapsed()-asked > slow {
		return answer, err
	}
	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		o.clock.Observe(date)
	}
	return answer, nil
}

// WrappedRoundTripper returns what the requests are sent by, for whoever wants to close
// its connections.
func (o *observer) WrappedRoundTripper() http.RoundTripper { return o.next }
