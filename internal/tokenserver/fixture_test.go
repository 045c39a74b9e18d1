package tokenserver_test

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	host   = "api.realmkeeper.localhost"
	secret = "rk_the-secret-of-all-clients"
	// The client "rotating" also has these secrets. The first expires now, the second one second
	// later.
	expiredSecret  = "rk_the-secret-that-has-expired"
	expiringSecret = "rk_the-secret-that-expires-soon"

	orders = "https://orders.example.com"
	stock  = "https://stock.example.com/v1"

	grant     = "grant_type=client_credentials"
	tokenPath = "/acme/oauth2/token"
)

// now is the token servers' current time. The certificates are valid at the actual time.
var now = time.Date(2026, 3, 1, 12, 0, 0, 500_000_000, time.UTC)

// keys returns one key for each algorithm. Tests share them because generating RSA keys is slow.
var keys = sync.OnceValue(func() map[signingkey.Algorithm]signingkey.Key {
	generated := map[signingkey.Algorithm]signingkey.Key{}
	for _, algorithm := range signingkey.Algorithms {
		key, err := signingkey.Generate(algorithm, now, rand.Reader)
		if err != nil {
			panic(err)
		}
		generated[algorithm] = key
	}
	return generated
})

func keyIn(state signingkey.State, algorithm signingkey.Algorithm) signingkey.Key {
	key := keys()[algorithm]
	key.State = state
	return key
}

// certificate returns a serving certificate issued by a managed CA, and a pool that contains the
// CA.
var certificate = sync.OnceValues(func() (*tls.Certificate, *x509.CertPool) {
	authority, err := pki.NewCA(nil, 24*time.Hour, time.Now(), rand.Reader)
	if err != nil {
		panic(err)
	}
	serving, err := authority.Issue([]string{host}, 24*time.Hour, time.Now(), rand.Reader)
	if err != nil {
		panic(err)
	}
	pair, err := tls.X509KeyPair(serving.Certificate, serving.Key)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Certificate)
	return &pair, roots
})

// logBuffer collects log output. It is safe for concurrent use.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// server is a token server. It listens on a loopback port after the first call of address.
type server struct {
	address  func() string
	registry *registry.Registry
	metrics  *prometheus.Registry
	log      *logBuffer
	http     *http.Server
	stop     func()
}

// unopened is a listener that server.address opens.
type unopened struct{ net.Listener }

func (u *unopened) Close() error {
	if u.Listener == nil {
		return nil
	}
	return u.Listener.Close()
}

// start runs a token server with a registry that is not loaded.
func start(t testing.TB, options ...func(*tokenserver.Options)) *server {
	t.Helper()
	s := &server{registry: registry.New(), metrics: prometheus.NewRegistry(), log: &logBuffer{}}
	logger := slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := tokenserver.Options{
		Registry: s.registry, Metrics: tokenserver.NewMetrics(s.metrics, s.registry), Logger: logger,
		Now: func() time.Time { return now }, Random: rand.Reader,
	}
	for _, option := range options {
		option(&o)
	}
	inner := &unopened{}
	var listener net.Listener
	s.http, listener = httpserver.NewPublic(inner, httpserver.Options{
		Handler: tokenserver.New(o), Limits: tokenserver.ServerLimits(httpserver.DefaultIdle), Memory: httpserver.Divide(256 << 20), Reject: tokenserver.Reject, Logger: logger,
	}, func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, _ := certificate()
		return pair, nil
	})
	var running sync.WaitGroup
	s.address = sync.OnceValue(func() string {
		var err error
		if inner.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		running.Go(func() { _ = s.http.ServeTLS(listener, "", "") })
		return listener.Addr().String()
	})
	s.stop = sync.OnceFunc(func() {
		_ = s.http.Close()
		_ = listener.Close()
		running.Wait()
	})
	t.Cleanup(s.stop)
	return s
}

// startLoaded runs a token server with the realms and clients that most tests use.
func startLoaded(t testing.TB, options ...func(*tokenserver.Options)) *server {
	t.Helper()
	s := start(t, options...)
	s.registry.Replace(
		[]*registry.Realm{newRealm(t, "acme", nil), newRealm(t, "frozen", func(r *registry.RealmSettings) { r.Disabled = true })},
		[]*registry.Client{
			newClient(t, "acme", "billing", func(c *registry.Client) { c.Scopes = []string{"orders:read", "orders:write", "stock"} }),
			newClient(t, "acme", "plain", func(c *registry.Client) { c.Audiences = []string{stock} }),
			newClient(t, "acme", "brief", func(c *registry.Client) { c.TokenLifetime = time.Minute }),
			newClient(t, "acme", "long", func(c *registry.Client) { c.TokenLifetime = time.Hour }),
			newClient(t, "acme", "named", func(c *registry.Client) { c.Audiences = []string{"billing", "urn:example:log"} }),
			newClient(t, "acme", "suspended", func(c *registry.Client) { c.Disabled = true }),
			newClient(t, "acme", "expired", func(c *registry.Client) { c.ExpiresAt = now }),
			newClient(t, "acme", "expires", func(c *registry.Client) { c.ExpiresAt = now.Add(time.Second) }),
			newClient(t, "acme", "rotating", func(c *registry.Client) {
				c.Secrets = append(credentials(t, expiredSecret, now), append(credentials(t, expiringSecret, now.Add(time.Second)), c.Secrets...)...)
			}),
			newClient(t, "acme", "no-secret", func(c *registry.Client) { c.Secrets = nil }),
			newClient(t, "acme", "a:b%", nil),
			newClient(t, "acme", "gateway", func(c *registry.Client) { c.Introspects = []string{orders, stock, "billing", "urn:example:log"} }),
			newClient(t, "frozen", "billing", nil),
		}, nil, nil, func(string) bool { return false })
	return s
}

// inBubble runs a test in the time of testing/synctest, so that delays take no time. Its requests must
// be direct.
func inBubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(10 * time.Minute) // secrets that still wait are verified first
		test(t)
	})
}

func newRealm(t testing.TB, name string, change func(*registry.RealmSettings)) *registry.Realm {
	t.Helper()
	settings := registry.RealmSettings{
		Record: "realm-" + name, UID: "uid-" + name, Name: name, Issuer: "https://" + host + "/" + name, TokenLifetime: 5 * time.Minute, KeyCache: 5 * time.Minute,
		Scopes: []string{"orders:read", "orders:write", "stock"},
		Keys:   []signingkey.Key{keyIn(signingkey.Active, signingkey.ES256)},
	}
	if change != nil {
		change(&settings)
	}
	return testkit.Value(registry.NewRealm(settings))(t)
}

func newClient(t testing.TB, realm, id string, change func(*registry.Client)) *registry.Client {
	t.Helper()
	client := &registry.Client{
		Record: realm + "." + id, UID: realm + "." + id, Identity: realm + "." + id, RealmUID: "uid-" + realm, ID: id,
		Audiences: []string{orders, stock},
		Secrets:   credentials(t, secret, time.Time{}),
	}
	if change != nil {
		change(client)
	}
	return client
}

// credentials returns the credentials of a client with one secret. If expiration is zero, the secret
// does not expire.
func credentials(t testing.TB, secret string, expiration time.Time) []clientsecret.Stored {
	t.Helper()
	verifier := testkit.Value(clientsecret.Hash(secret, rand.Reader))(t)
	return []clientsecret.Stored{{Verifier: verifier, ExpiresAt: expiration}}
}

func basic(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(id+":"+secret))
}

// request is a request that a net/http client can send.
type request struct {
	method, path  string // default to POST and tokenPath
	query, body   string
	authorization string
	header        http.Header
	chunked       bool // send the body without Content-Length
}

// response is a response, including its body.
type response struct {
	status int
	header http.Header
	body   string
}

// protocols are the HTTP versions that the server supports.
var protocols = map[string]func(*http.Protocols){
	"HTTP/1.1": func(p *http.Protocols) { p.SetHTTP1(true) },
	"HTTP/2":   func(p *http.Protocols) { p.SetHTTP2(true) },
}

// clientOf returns an HTTP client that uses only the given protocol.
func (s *server) clientOf(t testing.TB, protocol string) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: s.tlsConfig(), Protocols: &http.Protocols{}}
	protocols[protocol](transport.Protocols)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// direct returns an HTTP client whose requests get to the server's handler without a connection.
func (s *server) direct() *http.Client {
	return &http.Client{
		Transport:     inProcess{s.http.Handler},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type inProcess struct{ http.Handler }

func (h inProcess) RoundTrip(sent *http.Request) (*http.Response, error) {
	target := sent.URL.RequestURI()
	r := httptest.NewRequestWithContext(sent.Context(), sent.Method, "/", sent.Body)
	var err error
	if r.URL, err = url.ParseRequestURI(target); err != nil {
		return nil, err
	}
	r.RequestURI, r.Host, r.Header, r.RemoteAddr, r.ContentLength = target, host, sent.Header, "127.0.0.1:1", sent.ContentLength
	if sent.Body == nil {
		r.Body = http.NoBody
	} else if sent.ContentLength == 0 {
		r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

func (s *server) tlsConfig() *tls.Config {
	_, roots := certificate()
	return &tls.Config{RootCAs: roots, ServerName: host}
}

func (s *server) send(t testing.TB, client *http.Client, r request) response {
	t.Helper()
	address := "https://" + host
	if _, ok := client.Transport.(inProcess); !ok {
		address = "https://" + s.address()
	}
	address += cmp.Or(r.path, tokenPath)
	if r.query != "" {
		address += "?" + r.query
	}
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
		if r.chunked {
			body = io.MultiReader(body) // hide the length
		}
	}
	sent := testkit.Value(http.NewRequestWithContext(t.Context(), cmp.Or(r.method, http.MethodPost), address, body))(t)
	if r.body != "" {
		sent.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if r.authorization != "" {
		sent.Header.Set("Authorization", r.authorization)
	}
	maps.Copy(sent.Header, r.header)
	got := testkit.Value(client.Do(sent))(t)
	defer got.Body.Close()
	content := testkit.Value(io.ReadAll(got.Body))(t)
	return response{got.StatusCode, got.Header, string(content)}
}

func expectStatus(t testing.TB, what string, want int, got response) {
	t.Helper()
	if got.status != want {
		t.Errorf("%s: got %d %s, want %d", what, got.status, got.body, want)
	}
}
