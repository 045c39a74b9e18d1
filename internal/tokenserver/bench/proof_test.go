package bench_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// BenchmarkDPoP measures the time of requests with a DPoP proof, on one core and without a socket.
// The baseline is the same request without a proof, plus the verification of one signature.
func BenchmarkDPoP(b *testing.B) {
	b.Run("token", func(b *testing.B) {
		p := benchPopulation(b, signingkey.ES256)
		key := benchKey(b, signingkey.ES256)
		compareProofs(b, p, func(i int) (plain, bound *http.Request) {
			plain, bound = parseRequest(b, p.requests[i]), parseRequest(b, p.requests[i])
			bound.Header.Set("DPoP", benchProof(b, key, http.MethodPost, "https://"+host+bound.URL.Path, ""))
			return plain, bound
		})
	})
	b.Run("verify", func(b *testing.B) {
		p := benchPopulation(b, signingkey.ES256)
		key := benchKey(b, signingkey.ES256)
		var tokens [benchRealms][2]string // of each realm, one without and one with a key
		for i := range tokens {
			unbound, bound := parseRequest(b, p.requests[i]), parseRequest(b, p.requests[i])
			bound.Header.Set("DPoP", benchProof(b, key, http.MethodPost, "https://"+host+bound.URL.Path, ""))
			tokens[i] = [2]string{issuedTo(b, p.handler, unbound), issuedTo(b, p.handler, bound)}
		}
		compareProofs(b, p, func(i int) (plain, bound *http.Request) {
			i %= benchRealms
			path := fmt.Sprintf("/realm-%d%s", i, oauth.VerificationPath)
			plain = parseRequest(b, fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", path, host, tokens[i][0]))
			const api = "https://orders.acme.example/orders"
			bound = parseRequest(b, fmt.Appendf(nil, "GET %s?dpop=original HTTP/1.1\r\nHost: %s\r\nAuthorization: DPoP %s\r\nDPoP: %s\r\nX-Original-Method: GET\r\nX-Original-URL: %s\r\n\r\n",
				path, host, tokens[i][1], benchProof(b, key, http.MethodGet, api, tokens[i][1]), api))
			return plain, bound
		})
	})
}

// benchProof returns a new proof for a request. If there is a token, the proof is for a request with it.
func benchProof(b *testing.B, key signingkey.Key, method, url, token string) string {
	b.Helper()
	claims := object{"jti": rand.Text(), "htm": method, "htu": url, "iat": time.Now().Unix()}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return signedJWT(b, key, object{"typ": "dpop+jwt", "alg": key.Algorithm, "jwk": key.Public()}, claims)
}

// issuedTo returns the token in the response to a request.
func issuedTo(b *testing.B, handler http.Handler, r *http.Request) string {
	b.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	var issued struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &issued); err != nil || issued.AccessToken == "" {
		b.Fatalf("got %d %s: %v", w.Code, w.Body, err)
	}
	return issued.AccessToken
}

// compareProofs compares pairs of requests. Each request with a proof is sent once, because a proof
// is valid only once.
func compareProofs(b *testing.B, p *population, pair func(i int) (plain, bound *http.Request)) {
	b.Helper()
	verify := rawVerification(b, signingkey.ES256, []byte("a proof"))
	writer := &nullWriter{header: http.Header{}}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var without, with, signature cost
	for turn := 0; b.Loop(); turn++ {
		var requests [2][]*http.Request
		for i := range batch {
			plain, bound := pair((turn*batch + i) % len(p.requests))
			requests[0], requests[1] = append(requests[0], plain), append(requests[1], bound)
		}
		for i := range 3 {
			switch (turn + i) % 3 {
			case 0:
				without.add(b, p.next(writer, requests[0]))
			case 1:
				with.add(b, p.next(writer, requests[1]))
			default:
				signature.add(b, verify)
			}
		}
	}
	baseline := without.time() + signature.time()
	b.ReportMetric(with.time()/baseline, "ratio")
	b.ReportMetric(with.time()-baseline, "µs-surplus")
	b.ReportMetric(signature.time(), "µs-verification")
	b.ReportMetric(with.allocations()-without.allocations(), "allocs-surplus")
}

// next returns a function that sends the next of the requests.
func (p *population) next(writer *nullWriter, requests []*http.Request) func() error {
	return func() error {
		r := requests[0]
		requests = requests[1:]
		clear(writer.header)
		p.handler.ServeHTTP(writer, r)
		return writer.err
	}
}
