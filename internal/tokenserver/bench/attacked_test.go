package bench_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
)

// BenchmarkAttacked measures the 99th percentile of the CPU time of honest clients' requests, while others send ten
// times as many to displace what the token server remembers, on one core and without a socket. Honest clients request
// and present the same tokens again and again. The baseline is a token server that remembers nothing.
func BenchmarkAttacked(b *testing.B) {
	p := benchPopulation(b, signingkey.ES256)
	var verify [][]byte
	var tokens, forged []string
	for range 10 {
		verify, _ = tokenChecks(b, p, func(realm, authorization, token string) []byte {
			at := len(token) - 20 // in the signature
			tokens = append(tokens, "Bearer "+token)
			forged = append(forged, fmt.Sprintf("Bearer %s%c%s", token[:at], 'A'+('Z'-token[at])%2, token[at+1:]))
			return verificationRequest(realm, authorization, token)
		})
	}
	for _, name := range []string{"forged", "distinct"} {
		b.Run(name, func(b *testing.B) {
			loads := map[string]*attackedLoad{}
			for when, always := range map[string]bool{"quiet": false, "attacked": false, "forgetful": true} {
				handler := benchHandler(p.registry, func(o *tokenserver.Options) { o.SignAndVerifyAlways = always })
				calls := func(first [][]byte, authorizations []string) func() error {
					return handlerCalls(b, handler, first, authorizations)
				}
				l := &attackedLoad{honest: []func() error{calls(p.requests, p.authorizations[:naiveClients]), calls(verify, tokens[:naiveClients])}}
				switch {
				case when == "quiet":
				case name == "forged":
					l.attack = []func() error{calls(verify, forged)}
				default:
					l.attack = []func() error{calls(p.requests, p.authorizations[naiveClients:]), calls(verify, tokens[naiveClients:])}
				}
				loads[when] = l
			}
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for b.Loop() {
				for _, l := range loads {
					l.run(b)
				}
			}
			for when, l := range loads {
				b.ReportMetric(l.p99(), "µs-"+when)
			}
			b.ReportMetric(loads["attacked"].p99()/loads["forgetful"].p99(), "ratio")
		})
	}
}

// attackedLoad is what honest clients and attackers send to a token server.
type attackedLoad struct {
	honest, attack []func() error
	times          []time.Duration // of honest requests
}

func (l *attackedLoad) run(b *testing.B) {
	b.Helper()
	for range batch {
		for _, attack := range l.attack {
			for range 20 / len(l.attack) {
				_ = attack() // forged tokens are rejected
			}
		}
		for _, call := range l.honest {
			start := threadTime()
			if err := call(); err != nil {
				b.Fatal(err)
			}
			l.times = append(l.times, threadTime()-start)
		}
	}
}

// p99 returns the 99th percentile in microseconds.
func (l *attackedLoad) p99() float64 {
	slices.Sort(l.times)
	return float64(l.times[(len(l.times)-1)*99/100].Nanoseconds()) / 1e3
}

// threadTime returns the CPU time that this thread has used.
func threadTime() time.Duration {
	var spent unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &spent); err != nil {
		panic(err)
	}
	return time.Duration(spent.Nano())
}
