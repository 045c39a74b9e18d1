package bench_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// BenchmarkClaims measures tokens per second over loopback of clients with 16 fixed claims. The
// baseline is the same without claims.
func BenchmarkClaims(b *testing.B) {
	with, without := claimingPopulation(b, benchClaims(10)), benchPopulation(b, signingkey.ES256)
	rates := measure(b, map[string]rate{
		"claims": serve(b, productServer(with.handler), anyOf(with.requests)).rate,
		"plain":  serve(b, productServer(without.handler), anyOf(without.requests)).rate,
	})
	b.ReportMetric(rates["claims"]/rates["plain"], "ratio")
}

// BenchmarkClaimsHandler measures the time and allocations of a token request of such a client, on
// one core and without a socket. The claims are short, as usual, or of the size that the API allows.
// The baseline is the same without claims.
func BenchmarkClaimsHandler(b *testing.B) {
	for name, length := range map[string]int{"short": 10, "largest": 114} {
		b.Run(name, func(b *testing.B) {
			claims := benchClaims(length)
			compareHandlers(b, claimingPopulation(b, claims))
			b.ReportMetric(float64(len(claims)), "bytes")
		})
	}
}

// compareHandlers compares token requests to a population with those to one without additions, on one core and
// without a socket.
func compareHandlers(b *testing.B, p *population) {
	b.Helper()
	others := benchPopulation(b, signingkey.ES256)
	with, without := handlerCalls(b, p.handler, p.requests, p.authorizations), handlerCalls(b, others.handler, others.requests, others.authorizations)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var added, plain cost
	for turn := 0; b.Loop(); turn++ {
		for i := range 2 {
			if (turn+i)%2 == 0 {
				added.add(b, with)
			} else {
				plain.add(b, without)
			}
		}
	}
	b.ReportMetric(added.time()/plain.time(), "ratio")
	b.ReportMetric(added.time()-plain.time(), "µs-surplus")
	b.ReportMetric(added.allocations()-plain.allocations(), "allocs-surplus")
}

// claimingPopulation returns a population whose clients have fixed claims, each in memory of its
// own, as when they are loaded from records.
func claimingPopulation(b *testing.B, claims []byte) *population {
	b.Helper()
	return newPopulation(b, signingkey.ES256, func(*tokenserver.Options) {}, func(c *registry.Client) { c.Claims = bytes.Clone(claims) })
}

// benchClaims returns 16 encoded claims with texts of the given length.
func benchClaims(length int) []byte {
	var claims []byte
	for i := range 16 {
		claims = fmt.Appendf(claims, `,"claim-%02d":"%s"`, i, strings.Repeat("a", length))
	}
	return claims
}
