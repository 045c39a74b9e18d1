// Package bench_test measures the token server and a baseline alternately, so the metric "ratio"
// doesn't depend on the machine. `make bench` runs the benchmarks and checks the targets.
package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
)

// BenchmarkTokens measures tokens per second over loopback. The baseline is a server that only
// handles HTTP and signs.
func BenchmarkTokens(b *testing.B) {
	for _, algorithm := range signingkey.Algorithms {
		b.Run(string(algorithm), func(b *testing.B) {
			p := benchPopulation(b, algorithm)
			sign := rawSignature(b, algorithm, signingInput(responseTo(b, p.handler, p.requests[0]).Body.String()))
			compareRates(b, p, anyOf(p.requests), "sign", sign)
		})
	}
}

// BenchmarkVerify measures responses per second of the verification endpoint. The baseline is a
// server that only handles HTTP and verifies a signature.
func BenchmarkVerify(b *testing.B) { benchmarkTokenChecks(b, verificationRequest) }

// BenchmarkIntrospect measures responses per second of the introspection endpoint. The baseline is
// the same as in BenchmarkVerify.
func BenchmarkIntrospect(b *testing.B) {
	benchmarkTokenChecks(b, introspectionRequest)
}

func introspectionRequest(realm, authorization, token string) []byte {
	body := "token=" + token
	return fmt.Appendf(nil, "POST /%s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\nAuthorization: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
		realm, oauth.IntrospectionPath, host, authorization, oauth.ContentTypeForm, len(body), body)
}

// checkedAlgorithms are those for which checks of tokens are measured.
var checkedAlgorithms = []signingkey.Algorithm{signingkey.ES256, signingkey.EdDSA, signingkey.RS256}

func benchmarkTokenChecks(b *testing.B, question func(realm, authorization, token string) []byte) {
	b.Helper()
	for _, algorithm := range checkedAlgorithms {
		b.Run(string(algorithm), func(b *testing.B) {
			p := benchPopulation(b, algorithm)
			requests, input := tokenChecks(b, p, question)
			compareRates(b, p, anyOf(requests), "verify", rawVerification(b, algorithm, input))
		})
	}
}

// tokenChecks returns requests about tokens of 1000 clients, and the signed part of such a token.
func tokenChecks(b *testing.B, p *population, question func(realm, authorization, token string) []byte) (requests [][]byte, input []byte) {
	b.Helper()
	for i := range 1000 {
		body := responseTo(b, p.handler, p.requests[i]).Body
		input = signingInput(body.String())
		var issued struct {
			AccessToken string `json:"access_token"`
		}
		if err := json.Unmarshal(body.Bytes(), &issued); err != nil {
			b.Fatal(err)
		}
		requests = append(requests, question(fmt.Sprintf("realm-%d", i%benchRealms), p.authorizations[i], issued.AccessToken))
	}
	return requests, input
}

// compareRates measures the token server's responses per second. The baseline combines the rate of
// a plain net/http server that returns the same bytes with the rate of the computation. Client and
// server share the cores, so the durations of both parts add up. In a server, the same computation takes
// longer than alone, so a plain server that also computes shows how much of the baseline can be reached.
func compareRates(b *testing.B, p *population, load load, name string, compute func() error) {
	b.Helper()
	response := fixedResponse(responseTo(b, p.handler, load.next()))
	computing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := compute(); err != nil {
			panic(err)
		}
		response.ServeHTTP(w, r)
	})
	rates := measure(b, map[string]rate{
		"product":       serve(b, productServer(p.handler), load).rate,
		"plain":         serve(b, plainServer(response), load).rate,
		"plain-" + name: serve(b, plainServer(computing), load).rate,
		name:            parallel(compute),
	})
	baseline := 1 / (1/rates["plain"] + 1/rates[name])
	b.ReportMetric(rates["product"]/baseline, "ratio")
	b.ReportMetric(rates["plain-"+name]/baseline, "attainable")
}

// compare compares a rate of the product with the baseline of a plain server and a computation.
func compare(b *testing.B, product, plain rate, name string, compute func() error) {
	b.Helper()
	rates := measure(b, map[string]rate{"product": product, "plain": plain, name: parallel(compute)})
	baseline := 1 / (1/rates["plain"] + 1/rates[name])
	b.ReportMetric(rates["product"]/baseline, "ratio")
}

// parallel returns the rate of a computation on all cores.
func parallel(compute func() error) rate {
	return func(window time.Duration) (tally, error) { return parallelRate(compute, window) }
}

// BenchmarkDocuments measures requests for the precomputed documents. The baseline is the same HTTP
// server with a handler that only writes the same bytes.
func BenchmarkDocuments(b *testing.B) {
	for name, path := range map[string]string{"jwks": "/realm-0" + oauth.JWKSPath, "metadata": oauth.ServerMetadataPath + "/realm-0"} {
		b.Run(name, func(b *testing.B) {
			p := benchPopulation(b, signingkey.ES256)
			requests := [][]byte{fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n", path, host)}
			plain := fixedResponse(responseTo(b, p.handler, requests[0]))
			rates := measure(b, map[string]rate{
				"product": serve(b, productServer(p.handler), anyOf(requests)).rate,
				"plain":   serve(b, productServer(plain), anyOf(requests)).rate,
			})
			b.ReportMetric(rates["product"]/rates["plain"], "ratio")
		})
	}
}

// BenchmarkAudit measures tokens per second with an audit log in a file. The baseline is the rate
// without an audit log.
func BenchmarkAudit(b *testing.B) {
	file, err := os.CreateTemp(b.TempDir(), "audit-*.log")
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	log := audit.Open(file, slog.New(slog.DiscardHandler), time.Now)
	defer log.Close(context.Background())
	without := benchPopulation(b, signingkey.ES256)
	with := newPopulation(b, signingkey.ES256, func(o *tokenserver.Options) { o.Audit = log })
	rates := measure(b, map[string]rate{
		"audited":   serve(b, productServer(with.handler), anyOf(with.requests)).rate,
		"unaudited": serve(b, productServer(without.handler), anyOf(without.requests)).rate,
	})
	if log.Lost() > 0 {
		b.Errorf("%d audit events were lost", log.Lost())
	}
	b.ReportMetric(rates["audited"]/rates["unaudited"], "ratio")
}

// BenchmarkWrongSecrets measures the 99th percentile of four clients' response times during a flood
// of wrong secrets from one address. The baseline is the same percentile without the flood.
func BenchmarkWrongSecrets(b *testing.B) {
	p := benchPopulation(b, signingkey.ES256)
	s := serve(b, productServer(p.handler), anyOf(p.requests))
	var quiet, flooded []time.Duration
	for turn := 0; b.Loop(); turn++ {
		for i := range 2 {
			if (turn+i)%2 == 0 {
				quiet = append(quiet, s.responseTimes(b)...)
				continue
			}
			stop := s.flood(b)
			flooded = append(flooded, s.responseTimes(b)...)
			stop()
		}
	}
	p99 := func(times []time.Duration) float64 {
		if len(times) == 0 {
			b.Fatal("no request got a response")
		}
		slices.Sort(times)
		return float64(times[(len(times)-1)*99/100].Nanoseconds()) / 1e3
	}
	b.ReportMetric(p99(flooded), "µs-flooded")
	b.ReportMetric(p99(quiet), "µs-quiet")
	b.ReportMetric(p99(flooded)/p99(quiet), "ratio")
}

// BenchmarkHandler measures the time and allocations of a token request in addition to those of the
// signature, on one core and without a socket.
func BenchmarkHandler(b *testing.B) {
	p := benchPopulation(b, signingkey.ES256)
	sign := rawSignature(b, signingkey.ES256, signingInput(responseTo(b, p.handler, p.requests[0]).Body.String()))
	request := handlerCalls(b, p.handler, p.requests, p.authorizations)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var whole, signature cost
	for turn := 0; b.Loop(); turn++ {
		for i := range 2 {
			if (turn+i)%2 == 0 {
				whole.add(b, request)
			} else {
				signature.add(b, sign)
			}
		}
	}
	b.ReportMetric(whole.time()/signature.time(), "ratio")
	b.ReportMetric(whole.time()-signature.time(), "µs-surplus")
	b.ReportMetric(signature.time(), "µs-signature")
	b.ReportMetric(whole.allocations()-signature.allocations(), "allocs-surplus")
}

// handlerCalls returns a function that calls the handler with a request that has one of the Authorization headers,
// at random. The first requests are those of the realms, in the order of the headers.
func handlerCalls(b *testing.B, handler http.Handler, first [][]byte, authorizations []string) func() error {
	b.Helper()
	var requests []*http.Request
	for _, request := range first[:benchRealms] {
		requests = append(requests, parseRequest(b, request))
	}
	writer := &nullWriter{header: http.Header{}}
	return func() error {
		i := mathrand.IntN(len(authorizations))
		r := requests[i%benchRealms] // in the CPU cache, like a request that was just read
		r.Header["Authorization"][0] = authorizations[i]
		clear(writer.header)
		handler.ServeHTTP(writer, r)
		return writer.err
	}
}

// cost is the total cost of a number of calls, including garbage collection.
type cost struct {
	calls   int
	spent   time.Duration
	mallocs uint64
}

// batch is the number of calls between two measurements.
const batch = 100

func (c *cost) add(b *testing.B, call func() error) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := cpuTime()
	for range batch {
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
	c.spent += cpuTime() - start
	runtime.ReadMemStats(&after)
	c.mallocs += after.Mallocs - before.Mallocs
	c.calls += batch
}

func (c *cost) time() float64        { return float64(c.spent.Nanoseconds()) / 1e3 / float64(c.calls) }
func (c *cost) allocations() float64 { return float64(c.mallocs) / float64(c.calls) }

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// signingInput returns the signed part of the token in a response (RFC 7515 section 5.1).
func signingInput(body string) []byte {
	token := strings.Split(body, `"`)[3]
	return []byte(token[:strings.LastIndexByte(token, '.')])
}
