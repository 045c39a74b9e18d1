package bench_test

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/usereport"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	benchRealms  = 10
	benchClients = 10_000

	host          = "api.realmkeeper.localhost"
	orders        = "https://orders.example.com"
	assertionType = "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer"
)

// population is a token server with realms and clients, plus one token request per client.
type population struct {
	registry       *registry.Registry
	handler        http.Handler // signs and verifies every token
	requests       [][]byte     // POST with HTTP Basic and grant_type in the query, as documented
	authorizations []string     // the Authorization headers
}

var populations = map[signingkey.Algorithm]*population{}

// benchPopulation returns a population that signs with the given algorithm. All benchmarks share
// it, because generating RSA keys takes seconds.
func benchPopulation(b *testing.B, algorithm signingkey.Algorithm) *population {
	b.Helper()
	if populations[algorithm] == nil {
		populations[algorithm] = newPopulation(b, algorithm, func(*tokenserver.Options) {})
	}
	return populations[algorithm]
}

// benchHandler returns a token server with a registry. It records uses as the program does. Unless the option
// changes it, it signs and verifies every token, so that most benchmarks measure what a new one costs.
func benchHandler(reg *registry.Registry, option func(*tokenserver.Options)) http.Handler {
	logger := slog.New(slog.DiscardHandler)
	uses := usereport.New(usereport.Options{Resolution: usage.DefaultResolution, Logger: logger, Metrics: prometheus.NewRegistry(), Now: time.Now})
	o := tokenserver.Options{
		Registry: reg, Metrics: tokenserver.NewMetrics(prometheus.NewRegistry(), reg), Logger: logger,
		RecordUse: uses.Record, Now: time.Now, Random: rand.Reader,
		SignAndVerifyAlways: true,
	}
	option(&o)
	return tokenserver.New(o)
}

func newPopulation(b *testing.B, algorithm signingkey.Algorithm, option func(*tokenserver.Options), change ...func(*registry.Client)) *population {
	b.Helper()
	p := &population{registry: registry.New()}
	var realms []*registry.Realm
	for i := range benchRealms {
		realms = append(realms, benchRealm(b, fmt.Sprintf("realm-%d", i), algorithm))
	}
	var clients []*registry.Client
	for i := range benchClients {
		realm := realms[i%benchRealms]
		secret := testkit.Value(clientsecret.Generate(rand.Reader))(b)
		verifier := testkit.Value(clientsecret.Hash(secret, rand.Reader))(b)
		uid := fmt.Sprintf("5c9e2c5e-0000-4000-8000-%012d", i)
		client := &registry.Client{
			Record: fmt.Sprintf("client-%064x", i), UID: uid, Identity: uid, RealmUID: realm.UID, ID: clientID(i), Audiences: []string{orders},
			Scopes: []string{"orders:read", "orders:write"}, Secrets: []clientsecret.Stored{{ID: verifier.ID(), Verifier: verifier}},
		}
		for _, f := range change {
			f(client)
		}
		clients = append(clients, client)
		authorization := "Basic " + base64.StdEncoding.EncodeToString([]byte(client.ID+":"+secret))
		p.authorizations = append(p.authorizations, authorization)
		p.requests = append(p.requests, tokenRequest(realm.Name, authorization))
	}
	p.registry.Replace(realms, clients, nil, nil, func(string) bool { return false })
	p.handler = benchHandler(p.registry, option)
	return p
}

// productServer returns a server with the token server's limits.
func productServer(handler http.Handler) newServer {
	return func(listener net.Listener) (*http.Server, net.Listener) {
		return httpserver.NewPublic(listener, httpserver.Options{
			Handler: handler, Limits: tokenserver.ServerLimits(httpserver.DefaultIdle), Memory: httpserver.Divide(256 << 20),
			Reject: tokenserver.Reject, Logger: slog.New(slog.DiscardHandler),
		}, nil)
	}
}

// plainServer returns a server of net/http without limits. It doesn't log, because log messages
// would be mixed with the results.
func plainServer(handler http.Handler) newServer {
	return func(listener net.Listener) (*http.Server, net.Listener) {
		return &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}, listener
	}
}

// benchKey returns a new key that signs.
func benchKey(b *testing.B, algorithm signingkey.Algorithm) signingkey.Key {
	b.Helper()
	key := testkit.Value(signingkey.Generate(algorithm, time.Now(), rand.Reader))(b)
	key.State = signingkey.Active
	return key
}

func benchRealm(b *testing.B, name string, algorithm signingkey.Algorithm, change ...func(*registry.RealmSettings)) *registry.Realm {
	b.Helper()
	const lifetime = 15 * time.Minute
	settings := registry.RealmSettings{
		Record: "realm-" + name, UID: "uid-of-" + name, Name: name, Issuer: "https://" + host + "/" + name, TokenLifetime: lifetime, KeyCache: oauth.MaxKeyCache,
		Scopes: []string{"orders:read", "orders:write"}, Keys: []signingkey.Key{benchKey(b, algorithm)},
	}
	for _, f := range change {
		f(&settings)
	}
	return testkit.Value(registry.NewRealm(settings))(b)
}

// clientID returns a client ID as long as a typical <namespace>.<name>.
func clientID(i int) string { return fmt.Sprintf("team-%03d.service-%07d", i%1000, i) }

func tokenRequest(realm, authorization string) []byte {
	return fmt.Appendf(nil, "POST /%s%s?grant_type=%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\nAuthorization: %s\r\nContent-Length: 0\r\n\r\n",
		realm, oauth.TokenPath, oauth.GrantTypeClientCredentials, host, authorization)
}

func parseRequest(b *testing.B, request []byte) *http.Request {
	b.Helper()
	r := testkit.Value(http.ReadRequest(bufio.NewReader(bytes.NewReader(request))))(b)
	r.RemoteAddr = "127.0.0.1:40000"
	return r
}

// responseTo returns the handler's response to the request. The status must be 200.
func responseTo(b *testing.B, handler http.Handler, request []byte) *httptest.ResponseRecorder {
	b.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, parseRequest(b, request))
	if w.Code != http.StatusOK {
		b.Fatalf("got %d %s, want 200", w.Code, w.Body)
	}
	return w
}

// fixedResponse returns a handler that always writes the same response.
func fixedResponse(response *httptest.ResponseRecorder) http.Handler {
	body := response.Body.Bytes()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), response.Header())
		_, _ = w.Write(body)
	})
}

// nullWriter is an http.ResponseWriter that discards the body.
type nullWriter struct {
	header http.Header
	err    error
}

func (w *nullWriter) Header() http.Header               { return w.header }
func (w *nullWriter) Write(p []byte) (int, error)       { return len(p), nil }
func (w *nullWriter) WriteString(s string) (int, error) { return len(s), nil }
func (w *nullWriter) WriteHeader(status int) {
	if status != http.StatusOK {
		w.err = fmt.Errorf("%w: status %d", errResponse, status)
	}
}

// rawKey returns a new key, the bytes to sign, and the options for Sign. EdDSA signs the input; the
// other algorithms sign its digest, so hashing isn't measured.
func rawKey(b *testing.B, algorithm signingkey.Algorithm, input []byte) (key crypto.Signer, signed []byte, options crypto.SignerOpts) {
	b.Helper()
	digest, digest384 := sha256.Sum256(input), sha512.Sum384(input)
	signed, options = digest[:], crypto.SHA256
	var err error
	switch algorithm {
	case signingkey.ES256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case signingkey.ES384:
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		signed, options = digest384[:], crypto.SHA384
	case signingkey.RS256:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case signingkey.PS256:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
		options = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}
	case signingkey.EdDSA:
		_, key, err = ed25519.GenerateKey(rand.Reader)
		signed, options = input, crypto.Hash(0)
	}
	if err != nil {
		b.Fatal(err)
	}
	return key, signed, options
}

// rawSignature returns a function that creates one signature with crypto/*.
func rawSignature(b *testing.B, algorithm signingkey.Algorithm, input []byte) func() error {
	b.Helper()
	key, signed, options := rawKey(b, algorithm, input)
	return func() error { _, err := key.Sign(rand.Reader, signed, options); return err }
}

// rawVerification returns a function that verifies one signature with crypto/*.
func rawVerification(b *testing.B, algorithm signingkey.Algorithm, input []byte) func() error {
	b.Helper()
	key, signed, options := rawKey(b, algorithm, input)
	signature := testkit.Value(key.Sign(rand.Reader, signed, options))(b)
	return func() error {
		valid := false
		switch public := key.Public().(type) {
		case *ecdsa.PublicKey:
			valid = ecdsa.VerifyASN1(public, signed, signature)
		case ed25519.PublicKey:
			valid = ed25519.Verify(public, signed, signature)
		case *rsa.PublicKey:
			valid = rsa.VerifyPKCS1v15(public, crypto.SHA256, signed, signature) == nil
		}
		if !valid {
			return errResponse
		}
		return nil
	}
}
