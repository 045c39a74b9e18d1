// Package clock protects the operator from a machine whose clock is wrong.
package clock

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// MaxSkew is how far the machine's clock may be off the API server's.
const MaxSkew = time.Minute

// maxDelay is the longest response time for which the Date header is still useful.
const maxDelay = time.Second

// Clock provides the time. It is safe for concurrent use.
type Clock struct {
	wall     func() time.Time
	elapsed  func() time.Duration
	observed atomic.Pointer[reading] // nil until the first response
}

// reading is the time of the API server's clock in a response.
type reading struct {
	server  time.Time
	elapsed time.Duration // when it was received
}

// New returns a clock that uses wall as the machine's clock, normally time.Now. elapsed is the time
// since a fixed moment, which isn't affected if the machine's clock is set.
func New(wall func() time.Time, elapsed func() time.Duration) *Clock {
	return &Clock{wall: wall, elapsed: elapsed}
}

// Now returns the machine's time. If it differs from the API server's by more than MaxSkew, Now returns the
// API server's time. With a clock that is ahead, the operator would delete keys and secrets too early. With
// one that is behind, it would write times that are too early for token servers and for the next leader. A
// clock that is corrected is used again after the next response.
func (c *Clock) Now() time.Time {
	now := c.wall().Round(0) // without the monotonic reading, so that differences are those of the time of day
	if skew := c.Skew(now); skew.Abs() > MaxSkew {
		return now.Add(-skew)
	}
	return now
}

// Skew returns how far a time is ahead of the API server's clock; negative if it is behind, and zero
// before the first response.
func (c *Clock) Skew(now time.Time) time.Duration {
	r := c.observed.Load()
	if r == nil {
		return 0
	}
	return now.Sub(r.server.Add(c.elapsed() - r.elapsed))
}

// RegisterMetrics registers the metric about the machine's clock with registerer.
func (c *Clock) RegisterMetrics(registerer prometheus.Registerer) {
	registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "realmkeeper_clock_skew_seconds",
		Help: "How far the clock of the operator's node is ahead of the API server's, accurate to two seconds. If they differ by more than a minute, the operator uses the API server's time.",
	}, func() float64 { return c.Skew(c.wall().Round(0)).Seconds() }))
}

// Transport returns a transport for API server clients. It sends requests with next and reads the Date
// header of each response (RFC 9110 section 6.6.1).
func (c *Clock) Transport(next http.RoundTripper) http.RoundTripper {
	return &observer{clock: c, next: next}
}

type observer struct {
	clock *Clock
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o *observer) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := o.clock.elapsed()
	response, err := o.next.RoundTrip(r)
	received := o.clock.elapsed()
	if err != nil || received-sent > maxDelay {
		return response, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		o.clock.observed.Store(&reading{server: date, elapsed: received})
	}
	return response, nil
}

// WrappedRoundTripper returns the wrapped transport. client-go uses it to close idle connections.
func (o *observer) WrappedRoundTripper() http.RoundTripper { return o.next }
