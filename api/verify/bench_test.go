package verify_test

import (
	"context"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/realmkeeper/realmkeeper/api/verify"
)

// BenchmarkSeen measures tokens that were verified before, on one core. The ratio is how many times longer it takes
// to verify their signatures again.
func BenchmarkSeen(b *testing.B) {
	benchmarkMemory(b, 500, func(with, without *cost) float64 { return without.time() / with.time() })
}

// BenchmarkNew measures tokens that are verified for the first time, on one core. There are more than the verifier
// remembers. The ratio is how many times longer it takes to remember each of them.
func BenchmarkNew(b *testing.B) {
	benchmarkMemory(b, 3000, func(with, without *cost) float64 { return with.time() / without.time() })
}

func benchmarkMemory(b *testing.B, tokens int, ratio func(with, without *cost) float64) {
	b.Helper()
	for _, algorithm := range []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256} {
		b.Run(string(algorithm), func(b *testing.B) {
			r := newRealm(b)
			r.addKey(jose.JSONWebKey{Key: keyPairs()[algorithm], KeyID: "key", Algorithm: string(algorithm), Use: "sig"})
			with, without := r.verifier(nil), r.verifier(nil)
			without.RememberNothing()
			expires := object{"exp": time.Now().Add(time.Hour).Unix()}
			var all []string
			for range tokens {
				all = append(all, r.token(expires))
			}
			costs := []*cost{{call: verifying(with, all)}, {call: verifying(without, all)}}
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			for turn := 0; b.Loop(); turn++ {
				for i := range costs {
					costs[(turn+i)%len(costs)].add(b)
				}
			}
			b.ReportMetric(ratio(costs[0], costs[1]), "ratio")
			b.ReportMetric(costs[0].time(), "µs-remembering")
			b.ReportMetric(costs[1].time(), "µs-not-remembering")
		})
	}
}

// verifying returns a function that verifies the next one of the tokens. All of them were verified once.
func verifying(v *verify.Verifier, tokens []string) func() error {
	next := 0
	call := func() error {
		token := tokens[next%len(tokens)]
		next++
		_, err := v.Verify(context.Background(), token)
		return err
	}
	for range tokens {
		_ = call() // an error occurs again
	}
	return call
}

// cost is the CPU time of a number of calls, including garbage collection.
type cost struct {
	call  func() error
	calls int
	spent time.Duration
}

func (c *cost) add(b *testing.B) {
	b.Helper()
	const batch = 100
	start := cpuTime()
	for range batch {
		if err := c.call(); err != nil {
			b.Fatal(err)
		}
	}
	c.spent += cpuTime() - start
	c.calls += batch
}

// time returns the mean of the calls in microseconds.
func (c *cost) time() float64 { return float64(c.spent.Nanoseconds()) / 1e3 / float64(c.calls) }

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
