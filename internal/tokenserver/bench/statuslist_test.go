package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// BenchmarkStatus measures tokens per second over loopback of clients whose tokens refer to a status list. The
// baseline is the same without status lists.
func BenchmarkStatus(b *testing.B) {
	with, without := listedPopulation(b), benchPopulation(b, signingkey.ES256)
	rates := measure(b, map[string]rate{
		"status": serve(b, productServer(with.handler), anyOf(with.requests)).rate,
		"plain":  serve(b, productServer(without.handler), anyOf(without.requests)).rate,
	})
	b.ReportMetric(rates["status"]/rates["plain"], "ratio")
}

// BenchmarkStatusHandler measures the time and allocations of such a token request, on one core and without a
// socket.
func BenchmarkStatusHandler(b *testing.B) { compareHandlers(b, listedPopulation(b)) }

// BenchmarkStatusList measures requests for the status list of a realm with 100,000 clients. The baseline is the
// same HTTP server with a handler that only writes the same bytes.
func BenchmarkStatusList(b *testing.B) {
	p := listedPopulation(b)
	requests := [][]byte{fmt.Appendf(nil, "GET /realm-0%s1 HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n", oauth.StatusListPath, host)}
	plain := fixedResponse(responseTo(b, p.handler, requests[0]))
	rates := measure(b, map[string]rate{
		"product": serve(b, productServer(p.handler), anyOf(requests)).rate,
		"plain":   serve(b, productServer(plain), anyOf(requests)).rate,
	})
	b.ReportMetric(rates["product"]/rates["plain"], "ratio")
}

// listedPopulation returns a population whose clients hold indexes, with as many in a realm as 100,000 clients
// have.
func listedPopulation(b *testing.B) *population {
	b.Helper()
	index := 0
	started := time.Now()
	return newPopulation(b, signingkey.ES256, func(o *tokenserver.Options) {
		o.Confirmed = func() time.Time { return started }
		for i := range benchRealms {
			realm := benchRealm(b, fmt.Sprintf("realm-%d", i), signingkey.ES256, func(s *registry.RealmSettings) {
				s.StatusLists = &record.StatusLists{Number: 1, TTLSeconds: 10}
			})
			o.Registry.SetRealm(realm)
			for held := i; held < 100_000; held += benchRealms {
				o.Registry.SetIndex(registry.Index{Record: fmt.Sprintf("index-%d-%d", i, held), RealmUID: realm.UID, Index: held})
			}
		}
	}, func(c *registry.Client) {
		c.StatusIndex = &record.StatusIndex{Index: index * 10}
		index++
	})
}
