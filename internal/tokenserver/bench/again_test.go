package bench_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
)

// naiveClients is the number of clients that request a token for each call of an API.
const naiveClients = 20

// BenchmarkNaive measures tokens per second of such clients. The baseline is a token server that signs every token.
func BenchmarkNaive(b *testing.B) {
	for _, algorithm := range signingkey.Algorithms {
		b.Run(string(algorithm), func(b *testing.B) {
			p := benchPopulation(b, algorithm)
			compareRemembering(b, p, p.requests[:naiveClients], nil)
		})
	}
}

// BenchmarkVerifyAgain measures responses per second of the verify endpoint for tokens of 1000 clients that it has
// seen before. The baseline is a token server that verifies every signature.
func BenchmarkVerifyAgain(b *testing.B) { benchmarkAgain(b, verificationRequest) }

// BenchmarkIntrospectAgain is the same for introspection.
func BenchmarkIntrospectAgain(b *testing.B) { benchmarkAgain(b, introspectionRequest) }

func benchmarkAgain(b *testing.B, question func(realm, authorization, token string) []byte) {
	b.Helper()
	for _, algorithm := range checkedAlgorithms {
		b.Run(string(algorithm), func(b *testing.B) {
			p := benchPopulation(b, algorithm)
			requests, _ := tokenChecks(b, p, question)
			compareRemembering(b, p, requests, requests)
		})
	}
}

// BenchmarkNew measures the time of requests whose token is new, although the token server remembers others, on one
// core and without a socket: of clients at random, each in another second, and for 100,000 tokens at random. The
// baseline is a token server that remembers nothing.
func BenchmarkNew(b *testing.B) {
	p := benchPopulation(b, signingkey.ES256)
	b.Run("tokens", func(b *testing.B) {
		start, seconds := time.Now(), atomic.Int64{}
		compareNew(b, p, func() time.Time { return start.Add(time.Duration(seconds.Add(1)) * time.Second) }, p.requests, p.authorizations)
	})
	b.Run("verify", func(b *testing.B) {
		var authorizations []string
		var requests [][]byte
		for range 100 {
			requests, _ = tokenChecks(b, p, func(realm, authorization, token string) []byte {
				authorizations = append(authorizations, "Bearer "+token)
				return verificationRequest(realm, authorization, token)
			})
		}
		compareNew(b, p, time.Now, requests, authorizations)
	})
}

func compareNew(b *testing.B, p *population, now func() time.Time, requests [][]byte, authorizations []string) {
	b.Helper()
	calls := map[bool]func() error{} // by whether all tokens are signed and verified
	for _, always := range []bool{false, true} {
		handler := benchHandler(p.registry, func(o *tokenserver.Options) { o.Now, o.SignAndVerifyAlways = now, always })
		calls[always] = handlerCalls(b, handler, requests, authorizations)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var product, forgetful cost
	for turn := 0; b.Loop(); turn++ {
		for i := range 2 {
			if (turn+i)%2 == 0 {
				product.add(b, calls[false])
			} else {
				forgetful.add(b, calls[true])
			}
		}
	}
	b.ReportMetric(forgetful.time()/product.time(), "ratio")
	b.ReportMetric(product.time()-forgetful.time(), "µs-surplus")
	b.ReportMetric(product.allocations()-forgetful.allocations(), "allocs-surplus")
}

// compareRemembering compares a token server that remembers tokens, as the program does, with one that doesn't and
// with a plain server that returns the same bytes. The requests are sent at random, and those before once.
func compareRemembering(b *testing.B, p *population, requests, before [][]byte) {
	b.Helper()
	load, plain := anyOf(requests), fixedResponse(responseTo(b, p.handler, requests[0]))
	remembering := benchHandler(p.registry, func(o *tokenserver.Options) { o.SignAndVerifyAlways = false })
	for _, request := range before {
		responseTo(b, remembering, request)
	}
	rates := measure(b, map[string]rate{
		"product":   serve(b, productServer(remembering), load).rate,
		"forgetful": serve(b, productServer(p.handler), load).rate,
		"plain":     serve(b, plainServer(plain), load).rate,
	})
	b.ReportMetric(rates["product"]/rates["forgetful"], "ratio")
}

func verificationRequest(realm, _, token string) []byte {
	return fmt.Appendf(nil, "GET /%s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\nAuthorization: Bearer %s\r\n\r\n",
		realm, oauth.VerificationPath, host, token)
}
