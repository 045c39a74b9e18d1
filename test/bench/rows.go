package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// row is a metric of a benchmark with a target.
type row struct {
	name      string
	dir       string // the directory of the benchmark
	benchmark string // without the prefix Benchmark
	metric    string
	target    target
}

// target is the range of a metric. A bound of 0 means that there is none.
type target struct{ atLeast, atMost float64 }

const (
	server   = "internal/tokenserver/bench"
	registry = "internal/tokenserver/registry"
	feed     = "internal/tokenserver/feed"
	library  = "api/verify"
	others   = "test/bench"
)

var rows = []row{
	{"tokens/ES256", server, "Tokens/ES256", "ratio", target{atLeast: 0.80}},
	{"tokens/ES384", server, "Tokens/ES384", "ratio", target{}},
	{"tokens/EdDSA", server, "Tokens/EdDSA", "ratio", target{atLeast: 0.80}},
	{"tokens/RS256", server, "Tokens/RS256", "ratio", target{atLeast: 0.90}},
	{"tokens/PS256", server, "Tokens/PS256", "ratio", target{}},
	{"tokens over TLS/keep-alive", server, "TLS/keep-alive", "ratio", target{atLeast: 0.75}},
	{"tokens over TLS/connection per token", server, "TLS/connection-per-token", "ratio", target{atLeast: 0.90}},
	{"assertions over TLS/keep-alive", server, "TLS/assertion-keep-alive", "ratio", target{}},
	{"assertions over TLS/connection per token", server, "TLS/assertion-connection-per-token", "ratio", target{}},
	{"introspect over TLS/keep-alive", server, "TLS/introspection-keep-alive", "ratio", target{}},
	{"introspect over TLS/connection per call", server, "TLS/introspection-connection-per-token", "ratio", target{}},
	{"assertions/ES256", server, "Assertions", "ratio", target{}},
	{"latency over TLS/secret", server, "Latency/secret", "ms-p99", target{}},
	{"latency over TLS/assertion", server, "Latency/assertion", "ms-p99", target{}},
	{"latency over TLS/introspection", server, "Latency/introspection", "ms-p99", target{}},
	{"alone/token, TLS", server, "Alone/token-keep-alive", "per-core", target{}},
	{"alone/token, TLS, a connection each", server, "Alone/token-connection-per-request", "per-core", target{}},
	{"alone/assertion, TLS", server, "Alone/assertion-keep-alive", "per-core", target{}},
	{"alone/assertion, TLS, a connection each", server, "Alone/assertion-connection-per-request", "per-core", target{}},
	{"alone/introspect, TLS", server, "Alone/introspection-keep-alive", "per-core", target{}},
	{"alone/introspect, TLS, a connection each", server, "Alone/introspection-connection-per-request", "per-core", target{}},
	{"alone/token", server, "Alone/token-plain", "per-core", target{}},
	{"alone/introspect", server, "Alone/introspection-plain", "per-core", target{}},
	{"alone/token, EdDSA", server, "Alone/token-EdDSA", "per-core", target{}},
	{"alone/token, ES384", server, "Alone/token-ES384", "per-core", target{}},
	{"alone/token, RS256", server, "Alone/token-RS256", "per-core", target{}},
	{"alone/token, PS256", server, "Alone/token-PS256", "per-core", target{}},
	{"alone/naive, ES256", server, "Alone/naive-ES256", "per-core", target{}},
	{"alone/naive, EdDSA", server, "Alone/naive-EdDSA", "per-core", target{}},
	{"alone/naive, RS256", server, "Alone/naive-RS256", "per-core", target{}},
	{"verify/ES256", server, "Verify/ES256", "ratio", target{atLeast: 0.75}},
	{"verify/EdDSA", server, "Verify/EdDSA", "ratio", target{atLeast: 0.75}},
	{"verify/RS256", server, "Verify/RS256", "ratio", target{atLeast: 0.75}},
	{"introspect/ES256", server, "Introspect/ES256", "ratio", target{atLeast: 0.75}},
	{"introspect/EdDSA", server, "Introspect/EdDSA", "ratio", target{atLeast: 0.75}},
	{"introspect/RS256", server, "Introspect/RS256", "ratio", target{atLeast: 0.75}},
	{"naive/ES256", server, "Naive/ES256", "ratio", target{atLeast: 2.0}},
	{"naive/ES384", server, "Naive/ES384", "ratio", target{}},
	{"naive/EdDSA", server, "Naive/EdDSA", "ratio", target{atLeast: 1.7}},
	{"naive/RS256", server, "Naive/RS256", "ratio", target{atLeast: 12}},
	{"naive/PS256", server, "Naive/PS256", "ratio", target{}},
	{"verify again/ES256", server, "VerifyAgain/ES256", "ratio", target{atLeast: 1.8}},
	{"verify again/EdDSA", server, "VerifyAgain/EdDSA", "ratio", target{}},
	{"verify again/RS256", server, "VerifyAgain/RS256", "ratio", target{atLeast: 1.2}},
	{"introspect again/ES256", server, "IntrospectAgain/ES256", "ratio", target{atLeast: 2.0}},
	{"introspect again/EdDSA", server, "IntrospectAgain/EdDSA", "ratio", target{}},
	{"introspect again/RS256", server, "IntrospectAgain/RS256", "ratio", target{atLeast: 1.8}},
	{"new/tokens", server, "New/tokens", "ratio", target{atLeast: 0.96}},
	{"new/verify", server, "New/verify", "ratio", target{atLeast: 0.95}},
	{"documents/jwks", server, "Documents/jwks", "ratio", target{atLeast: 0.95}},
	{"documents/metadata", server, "Documents/metadata", "ratio", target{atLeast: 0.95}},
	{"audit", server, "Audit", "ratio", target{atLeast: 0.95}},
	{"wrong secrets/p99 of other clients", server, "WrongSecrets", "ratio", target{atMost: 2}},
	{"attacked/forged tokens", server, "Attacked/forged", "ratio", target{atMost: 1.2}},
	{"attacked/distinct tokens", server, "Attacked/distinct", "ratio", target{atMost: 1.2}},
	{"federated/ES256", server, "Federated", "ratio", target{atLeast: 0.70}},
	{"exchange/ES256", server, "Exchange", "ratio", target{atLeast: 0.60}},
	{"DPoP/token", server, "DPoP/token", "ratio", target{atMost: 1.5}},
	{"DPoP/verify", server, "DPoP/verify", "ratio", target{atMost: 1.5}},
	{"handler/time", server, "Handler", "ratio", target{atMost: 1.35}},
	{"handler/allocations", server, "Handler", "allocs-surplus", target{atMost: 15}},
	{"claims/16 on 10,000 clients", server, "Claims", "ratio", target{atLeast: 0.95}},
	{"claims/handler, 16 claims", server, "ClaimsHandler/short", "ratio", target{atMost: 1.10}},
	{"claims/handler, 2 KiB", server, "ClaimsHandler/largest", "ratio", target{}},
	{"status/claim on 10,000 clients", server, "Status", "ratio", target{atLeast: 0.98}},
	{"status/handler", server, "StatusHandler", "ratio", target{atMost: 1.10}},
	{"status/list", server, "StatusList", "ratio", target{atLeast: 0.95}},
	{"lookup/1,000 clients, ten active", registry, "Lookup/1000-ten-active", "ratio", target{atMost: 2}},
	{"lookup/100,000 clients, ten active", registry, "Lookup/100000-ten-active", "ratio", target{atMost: 2}},
	{"lookup/1,000,000 clients, ten active", registry, "Lookup/1000000-ten-active", "ratio", target{atMost: 2}},
	{"lookup/1,000,000 clients, all active", registry, "Lookup/1000000-all-active", "ratio", target{}},
	{"lookup/time of 1,000,000 clients", registry, "Lookup/1000000-all-active", "µs", target{atMost: 2}},
	{"records/memory per client", feed, "Records", "KiB/client", target{atMost: 1.5}},
	{"records/memory per federated client", feed, "FederatedRecords", "KiB/client", target{atMost: 2.5}},
	{"records/time of a change", feed, "Records", "ratio", target{atMost: 2}},
	{"api/verify/seen before, ES256", library, "Seen/ES256", "ratio", target{atLeast: 10}},
	{"api/verify/seen before, EdDSA", library, "Seen/EdDSA", "ratio", target{atLeast: 10}},
	{"api/verify/seen before, RS256", library, "Seen/RS256", "ratio", target{atLeast: 10}},
	{"api/verify/new, ES256", library, "New/ES256", "ratio", target{atMost: 1.05}},
	{"api/verify/new, EdDSA", library, "New/EdDSA", "ratio", target{}},
	{"api/verify/new, RS256", library, "New/RS256", "ratio", target{}},
	{"api/verify/go-oidc, ES256", others, "Verifier/ES256", "ratio", target{atLeast: 10}},
	{"api/verify/go-oidc, EdDSA", others, "Verifier/EdDSA", "ratio", target{atLeast: 10}},
	{"api/verify/go-oidc, RS256", others, "Verifier/RS256", "ratio", target{atLeast: 10}},
}

const limits = `Ratios compare with a limit that is measured in the same round:
  tokens, verify, introspect: 1/(1/plain + 1/sign) or 1/(1/plain + 1/verify). Plain is a net/http
    server without timeouts that returns the same bytes. Sign and verify use only crypto/*.
    attainable: the same for the plain server if it also signs or verifies.
    All tokens are new.
  naive, verify again, introspect again, new: the same server, but it signs and verifies every token.
    naive: 20 clients request a token for each call. new: hardly any
    token is presented or requested twice, on one core, in CPU time.
  attacked: the 99th percentile of the CPU time of honest requests, compared with a server that signs
    and verifies every token, under the same attack.
  federated, assertions, exchange: 1/(1/plain + 1/verify + 1/sign), because a JWT is verified too.
  over TLS: the same with a net/http server over TLS.
  latency: no ratio, but the response times at 70 % of the capacity in the same round, in ms.
  alone: no ratio, but requests per second and core, by the CPU time of the server's process.
    Another process sends the requests.
  documents, status/list: the product's HTTP server with a handler that only returns the same bytes.
  audit: the same without an audit log.   wrong secrets: the same without wrong secrets.
  lookup: a realm with 10 clients.        records: 100 instead of 100,000 clients.
  claims, status/claim, status/handler: the same without claims, or without the claim status.
  DPoP: the same request without a proof, and one verification, on one core.
  handler: one ES256 signature, on one core. Its allocations are those beyond the signature.
  api/verify: the same without remembered tokens, or go-oidc, on one core. The ratios of tokens that
    were seen before say how many times longer the baseline takes.
noisy: the row misses its target, but other processes used more than 10 % of the cores. Repeat on
  an idle machine.`

const format = "%-40s %12s  %-16s %-8s %-7s %s\n"

// print prints the row with the median of each metric.
func (r row) print(out io.Writer, metrics map[string][]float64, noisy bool) {
	var others []string
	for _, metric := range slices.Sorted(maps.Keys(metrics)) {
		if metric != r.metric {
			others = append(others, number(median(metrics[metric]))+" "+metric)
		}
	}
	verdict := ""
	switch {
	case r.missed(metrics[r.metric]) && noisy:
		verdict = "noisy"
	case r.missed(metrics[r.metric]):
		verdict = "MISSED"
	case r.target != target{}:
		verdict = "ok"
	}
	values := metrics[r.metric]
	unit := strings.TrimSuffix(strings.TrimSuffix(r.metric, "-surplus"), "/client")
	fmt.Fprintf(out, format, r.name, strings.TrimSuffix(number(median(values))+" "+unit, " ratio"),
		number(slices.Min(values))+" to "+number(slices.Max(values)), r.target, verdict, strings.Join(others, ", "))
}

// missed reports whether the median and most rounds miss the target.
func (r row) missed(values []float64) bool {
	misses := 0
	for _, value := range values {
		if !r.target.met(value) {
			misses++
		}
	}
	return !r.target.met(median(values)) && 2*misses > len(values)
}

// robust reports whether other processes hardly affect the metric: memory, and the CPU time and the
// allocations in calls without a socket.
func (r row) robust() bool {
	return slices.Contains([]string{"Handler", "DPoP", "ClaimsHandler", "StatusHandler", "New", "Attacked"}, r.parent()) ||
		r.metric == "KiB/client" || r.dir == library || r.dir == others
}

// parent returns the name of the benchmark without the name of the sub-benchmark.
func (r row) parent() string {
	parent, _, _ := strings.Cut(r.benchmark, "/")
	return parent
}

func (t target) met(value float64) bool {
	return (t.atLeast == 0 || value >= t.atLeast) && (t.atMost == 0 || value <= t.atMost)
}

func (t target) String() string {
	switch {
	case t.atLeast != 0:
		return "≥ " + number(t.atLeast)
	case t.atMost != 0:
		return "≤ " + number(t.atMost)
	}
	return ""
}

func median(values []float64) float64 {
	sorted, n := slices.Sorted(slices.Values(values)), len(values)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// number formats a value with two decimals, or none if it is at least 100.
func number(value float64) string {
	if value >= 100 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'f', 2, 64)
}
