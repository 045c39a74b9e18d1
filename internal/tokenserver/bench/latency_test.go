package bench_test

import (
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// loadFactor is the share of its capacity with which BenchmarkLatency loads the token server.
const loadFactor = 0.7

// BenchmarkLatency measures response times over persistent TLS connections. Requests arrive at
// random at 70 % of the rate that the server has just reached, regardless of how long the responses
// take. Clients and server share the cores.
func BenchmarkLatency(b *testing.B) {
	for name, setup := range map[string]func(*testing.B) workload{"secret": secrets, "assertion": assertions, "introspection": introspections} {
		b.Run(name, func(b *testing.B) {
			w := setup(b)
			s := serveTLS(b, productServer(w.server.handler), w.load, false)
			if _, err := s.rate(0); err != nil { // all TLS handshakes
				b.Fatal(err)
			}
			var times []time.Duration
			capacity, rounds := 0.0, 0.0
			for b.Loop() {
				s.load.prepareNow()
				start, before := time.Now(), s.responses() // not only the time that was available to this process
				if _, err := s.rate(window); err != nil {
					b.Fatal(err)
				}
				perSecond := float64(s.responses()-before) / time.Since(start).Seconds()
				capacity, rounds = capacity+perSecond, rounds+1
				times = append(times, s.arrivals(b, loadFactor*perSecond)...)
			}
			slices.Sort(times)
			b.ReportMetric(milliseconds(times[(len(times)-1)*50/100]), "ms-p50")
			b.ReportMetric(milliseconds(times[(len(times)-1)*99/100]), "ms-p99")
			b.ReportMetric(capacity/rounds, "capacity/s")
			b.ReportMetric(float64(len(times))/rounds/floodWindow.Seconds(), "sent/s")
		})
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// arrivals sends requests at random times (a Poisson process) and returns how long each took,
// including the time that it waited for a connection.
func (s *loadedServer) arrivals(b *testing.B, perSecond float64) []time.Duration {
	b.Helper()
	s.load.prepareNow()
	due := make(chan time.Time, int(perSecond)+1) // never full, so that arrivals don't wait for responses
	var mu sync.Mutex
	var all []time.Duration
	var running sync.WaitGroup
	for _, c := range s.connections {
		running.Go(func() {
			var own []time.Duration
			for at := range due {
				if err := c.exchange(); err != nil {
					b.Error(err)
					break
				}
				own = append(own, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
		})
	}
	start := time.Now()
	for at := start; at.Sub(start) < floodWindow; at = at.Add(time.Duration(mathrand.ExpFloat64() / perSecond * float64(time.Second))) {
		time.Sleep(time.Until(at))
		due <- at
	}
	close(due)
	running.Wait()
	return all
}
