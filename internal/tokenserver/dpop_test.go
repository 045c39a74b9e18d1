package tokenserver_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	tokenURL        = "https://" + host + tokenPath
	clusterTokenURL = "https://realmkeeper-token-server.realmkeeper-system.svc/acme/oauth2/token"
)

// proof describes a DPoP proof. The zero values are those of a valid one for the token endpoint.
type proof struct {
	key         signingkey.Key
	method, url string // default to POST and tokenURL
	token       string // if empty, the proof has no "ath"
	id          string // defaults to a new one
	issuedAt    time.Time
}

var lastProof atomic.Int64

func (p proof) sign(t testing.TB) string {
	t.Helper()
	if p.key.ID == "" {
		p.key = keyIn(signingkey.Active, signingkey.ES256)
	}
	if p.method == "" {
		p.method = http.MethodPost
	}
	if p.url == "" {
		p.url = tokenURL
	}
	if p.id == "" {
		p.id = "proof-" + strconv.FormatInt(lastProof.Add(1), 10)
	}
	if p.issuedAt.IsZero() {
		p.issuedAt = now
	}
	claims := members{"jti": p.id, "htm": p.method, "htu": p.url, "iat": p.issuedAt.Unix()}
	if p.token != "" {
		sum := sha256.Sum256([]byte(p.token))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return jws(t, &p.key, members{"typ": "dpop+jwt", "alg": p.key.Algorithm, "jwk": p.key.Public()}, claims)
}

// otherKey is a key that no server has.
func otherKey(t testing.TB) signingkey.Key {
	t.Helper()
	return testkit.Value(signingkey.Generate(signingkey.ES256, now, rand.Reader))(t)
}

func thumbprint(t testing.TB, key signingkey.Key) string {
	t.Helper()
	return testkit.Value(key.Public().Thumbprint())(t)
}

// startWithDPoP runs a token server with the client "bound", which requires DPoP, and an address
// inside the cluster.
func startWithDPoP(t testing.TB, options ...func(*tokenserver.Options)) *server {
	t.Helper()
	s := startLoaded(t, options...)
	s.registry.SetRealm(newRealm(t, "acme", func(r *registry.RealmSettings) {
		r.ClusterIssuerURL = strings.TrimSuffix(clusterTokenURL, "/oauth2/token")
	}))
	s.registry.SetClient(newClient(t, "acme", "bound", func(c *registry.Client) {
		c.DPoP, c.Claims = true, []byte(`,"tenant":"acme"`)
	}))
	return s
}

// withProofs requests a token for a client with the given DPoP headers.
func (s *server) withProofs(t testing.TB, client string, proofs ...string) response {
	t.Helper()
	return s.send(t, s.direct(), request{query: grant, authorization: basic(client, secret), header: http.Header{"Dpop": proofs}})
}

func TestTokenIsBoundToTheKeyOfTheProof(t *testing.T) {
	s := startWithDPoP(t)
	for algorithm := range keys() {
		for _, client := range []string{"billing", "bound"} {
			t.Run(string(algorithm)+" "+client, func(t *testing.T) {
				key := keyIn(signingkey.Active, algorithm)
				got := s.withProofs(t, client, proof{key: key}.sign(t))
				checkHeader(t, got, http.StatusOK, "")
				var decoded success
				if err := json.Unmarshal([]byte(got.body), &decoded); err != nil || decoded.TokenType != "DPoP" {
					t.Fatalf("body %s, want token_type DPoP: %v", got.body, err)
				}
				claims := payload(t, decoded.AccessToken)
				testkit.Diff(t, "cnf", map[string]any{"jkt": thumbprint(t, key)}, claims["cnf"])
				introspected := s.send(t, s.direct(), request{path: introspectPath, body: "token=" + decoded.AccessToken, authorization: basic("gateway", secret)})
				claims["active"], claims["token_type"] = true, "DPoP"
				var response map[string]any
				testkit.Do(t, json.Unmarshal([]byte(introspected.body), &response))
				testkit.Diff(t, "introspection", claims, response)
			})
		}
	}
}

func TestProofsAtTheTokenEndpoint(t *testing.T) {
	for name, tc := range map[string]struct {
		client string // defaults to plain
		proofs func(t *testing.T) []string
		query  string // in addition to the grant type

		wantStatus int // defaults to 200
		wantError  string
		wantResult string // of the metric; defaults to valid
	}{
		"external URL":           {proofs: func(t *testing.T) []string { return []string{proof{}.sign(t)} }},
		"URL inside the cluster": {proofs: func(t *testing.T) []string { return []string{proof{url: clusterTokenURL}.sign(t)} }},
		"required and missing":   {client: "bound", proofs: func(*testing.T) []string { return nil }, wantStatus: 400, wantError: "invalid_dpop_proof", wantResult: "missing"},
		"empty":                  {proofs: func(*testing.T) []string { return []string{""} }, wantStatus: 400, wantError: "invalid_dpop_proof", wantResult: "invalid"},
		"two headers":            {proofs: func(t *testing.T) []string { return []string{proof{}.sign(t), proof{}.sign(t)} }, wantStatus: 400, wantError: "invalid_dpop_proof", wantResult: "invalid"},
		"another realm's URL": {proofs: func(t *testing.T) []string {
			return []string{proof{url: strings.Replace(tokenURL, "acme", "frozen", 1)}.sign(t)}
		}, wantStatus: 400, wantError: "invalid_dpop_proof", wantResult: "invalid"},
		"too old":              {proofs: func(t *testing.T) []string { return []string{proof{issuedAt: now.Add(-61 * time.Second)}.sign(t)} }, wantStatus: 400, wantError: "invalid_dpop_proof", wantResult: "invalid"},
		"wrong secret":         {client: "no-secret", proofs: func(*testing.T) []string { return []string{canary} }, wantStatus: 401, wantError: "invalid_client", wantResult: "none"},
		"scope is not granted": {proofs: func(t *testing.T) []string { return []string{proof{}.sign(t)} }, query: "&scope=x", wantStatus: 400, wantError: "invalid_scope", wantResult: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startWithDPoP(t)
			client := tc.client
			if client == "" {
				client = "plain"
			}
			got := s.send(t, s.direct(), request{query: grant + tc.query, authorization: basic(client, secret), header: http.Header{
				"Dpop": tc.proofs(t),
				// The URL of the request comes from configuration.
				"X-Original-Url": {tokenURL}, "X-Original-Method": {"POST"}, "X-Forwarded-Host": {"x"},
			}})
			if tc.wantStatus != 0 {
				checkRejection(t, got, tc.wantStatus, tc.wantError, "")
			} else if got.status != http.StatusOK || !strings.Contains(got.body, `"token_type":"DPoP"`) {
				t.Errorf("got %d %s, want a token of type DPoP", got.status, got.body)
			}
			if tc.wantResult == "" {
				tc.wantResult = "valid"
			}
			want := "# HELP realmkeeper_dpop_proofs_total DPoP proofs by endpoint (\"token\" or \"verify\") and result: \"valid\", \"invalid\", \"replayed\", \"missing\" if the request needs one, or \"full\" if the response was 503.\n" +
				"# TYPE realmkeeper_dpop_proofs_total counter\n" +
				`realmkeeper_dpop_proofs_total{endpoint="token",result="` + tc.wantResult + "\"} 1\n"
			if tc.wantResult == "none" {
				want = ""
			}
			testkit.Do(t, testutil.GatherAndCompare(s.metrics, strings.NewReader(want), "realmkeeper_dpop_proofs_total"))
		})
	}
}

// The URL of the token endpoint comes from configuration, so a server that clients are tricked into
// calling can't forward their proofs.
func TestHostDoesNotChangeTheURLOfProofs(t *testing.T) {
	s := startWithDPoP(t)
	const other = "attacker.example.com"
	for _, headers := range []string{"", "X-Forwarded-Host: " + other + "\r\n", "Forwarded: host=" + other + "\r\n"} {
		question := "POST " + tokenPath + "?" + grant + " HTTP/1.1\r\nHost: " + other + "\r\nConnection: close\r\nContent-Length: 0\r\n" + headers +
			"Authorization: " + basic("plain", secret) + "\r\nDPoP: "
		for url, want := range map[string]int{"https://" + other + tokenPath: http.StatusBadRequest, tokenURL: http.StatusOK} {
			got := responses(t, s.exchange(t, question+proof{url: url}.sign(t)+"\r\n\r\n"))
			if len(got) != 1 || got[0].status != want {
				t.Errorf("%s with headers %q: got %+v, want %d", url, headers, got, want)
			}
		}
	}
}

// A proof is accepted once. A request that fails doesn't use it up.
func TestProofIsAcceptedOnce(t *testing.T) {
	s := startWithDPoP(t)
	first := proof{id: "one"}.sign(t)
	checkRejection(t, s.send(t, s.direct(), request{query: grant + "&scope=x", authorization: basic("plain", secret), header: http.Header{"Dpop": {first}}}), 400, "invalid_scope", "")
	if got := s.withProofs(t, "plain", first); got.status != http.StatusOK {
		t.Fatalf("got %d %s, want 200", got.status, got.body)
	}
	checkRejection(t, s.withProofs(t, "plain", first), 400, "invalid_dpop_proof", "")
	// The signature differs but the ID doesn't.
	checkRejection(t, s.withProofs(t, "plain", proof{id: "one", issuedAt: now.Add(time.Second)}.sign(t)), 400, "invalid_dpop_proof", "")
	// Other clients and instances with another key choose their IDs independently.
	for name, got := range map[string]response{
		"another client": s.withProofs(t, "billing", first),
		"another key":    s.withProofs(t, "plain", proof{id: "one", key: otherKey(t)}.sign(t)),
	} {
		expectStatus(t, name, http.StatusOK, got)
	}
}

// One client can't fill the memory of used proofs for others.
func TestMemoryOfProofsIsFull(t *testing.T) {
	s := startWithDPoP(t, tokenserver.WithStoredProofs(8))
	if got := s.withProofs(t, "plain", proof{}.sign(t)); got.status != http.StatusOK {
		t.Fatalf("got %d %s, want 200", got.status, got.body)
	}
	checkRejection(t, s.withProofs(t, "plain", proof{}.sign(t)), 503, "temporarily_unavailable", "")
	expectStatus(t, "without a proof", http.StatusOK, s.withProofs(t, "plain"))
	expectStatus(t, "another client", http.StatusOK, s.withProofs(t, "billing", proof{}.sign(t)))
}
