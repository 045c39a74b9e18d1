package portal_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// goodToken is the only token that the API server accepts. It belongs to the user grace.
	goodToken = "good.token"
	badToken  = "canary.bad.token"
)

// apiServer responds like an API server without objects. The behavior of a real one is tested in
// test/portal.
type apiServer struct {
	*httptest.Server

	reviews atomic.Int64 // tokens checked
	// hang, if set, holds up the requests for which it returns true until they are canceled.
	hang atomic.Pointer[func(*http.Request) bool]
	held chan struct{} // receives a value for each such request
	// respond, if set, responds to authenticated requests for which it returns true.
	respond atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
}

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{held: make(chan struct{}, 1000)}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // so that the server notices a disconnected client
	r.Body = io.NopCloser(bytes.NewReader(body))
	if hang := s.hang.Load(); hang != nil && (*hang)(r) {
		s.held <- struct{}{}
		<-r.Context().Done()
		return
	}
	if isReview(r) {
		s.reviews.Add(1)
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+goodToken:
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`)
	case s.respond.Load() != nil && (*s.respond.Load())(w, r):
	case isReview(r):
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"grace"}}}`)
	case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
	case strings.HasSuffix(r.URL.Path, "/apiclients"):
		_, _ = io.WriteString(w, `{"kind":"ApiClientList","apiVersion":"auth.realmkeeper.dev/v1beta1","items":[]}`)
	case strings.HasSuffix(r.URL.Path, "/realms"):
		_, _ = io.WriteString(w, `{"kind":"RealmList","apiVersion":"auth.realmkeeper.dev/v1beta1","items":[]}`)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
}

func isReview(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") }

// holdUp makes a request hang if match returns true for it.
func (s *apiServer) holdUp(match func(*http.Request) bool) { s.hang.Store(&match) }

// fixture is a running portal.
type fixture struct {
	*httptest.Server

	t       *testing.T
	api     *apiServer
	metrics *prometheus.Registry
	// closeAudit ends the audit log, so that it reports suppressed events.
	closeAudit func()

	mu    sync.Mutex
	time  time.Time
	lines bytes.Buffer // of the audit log
}

// startPortal starts a portal behind a proxy that passes on the sources of requests.
func startPortal(t *testing.T, change ...func(*portal.Options, *access.Sessions)) *fixture {
	t.Helper()
	f := &fixture{t: t, api: startAPIServer(t), metrics: prometheus.NewRegistry(), time: time.Now()}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.api.Certificate().Raw})
	cluster := testkit.Value(access.NewCluster(f.api.URL, authority))(t)
	sessions := testkit.Value(access.NewSessions([]byte(rand.Text()+rand.Text()), access.DefaultIdleTimeout, f.now))(t)
	log := audit.Open(f, slog.New(slog.DiscardHandler), f.now)
	f.closeAudit = sync.OnceFunc(func() {
		if err := log.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(f.closeAudit)
	options := portal.Options{
		Cluster: cluster, Sessions: sessions, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Logger: slog.New(slog.DiscardHandler), Audit: log, Metrics: f.metrics, Now: f.now, Random: rand.Reader,
	}
	for _, change := range change {
		change(&options, sessions)
	}
	f.Server = httptest.NewTLSServer(portal.New(options))
	t.Cleanup(f.Close)
	return f
}

func (f *fixture) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.time
}

// pass advances the portal's clock.
func (f *fixture) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.time = f.time.Add(d)
}

// Write receives the audit log.
func (f *fixture) Write(lines []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lines.Write(lines)
}

// audited waits for the given number of events.
func (f *fixture) audited(count int) (events []audit.Event, lines string) {
	f.t.Helper()
	for {
		f.mu.Lock()
		lines = f.lines.String()
		f.mu.Unlock()
		if strings.Count(lines, "\n") >= count {
			break
		}
		select {
		case <-f.t.Context().Done():
			f.t.Fatalf("Audit log has fewer than %d events:\n%s", count, lines)
		case <-time.After(time.Millisecond):
		}
	}
	for line := range strings.Lines(lines) {
		var e audit.Event
		testkit.Do(f.t, json.Unmarshal([]byte(line), &e))
		events = append(events, e)
	}
	return events, lines
}

// browser is a browser with its own cookies.
type browser struct {
	*fixture

	client http.Client
	source string
}

// browser returns a new browser at the given address.
func (f *fixture) browser(source string) *browser {
	f.t.Helper()
	jar := testkit.Value(cookiejar.New(nil))(f.t)
	client := *f.Client()
	client.Jar = jar
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{fixture: f, client: client, source: source}
}

// response is a response that was read to its end.
type response struct {
	*http.Response

	body string
}

func (b *browser) send(r *http.Request) response {
	b.t.Helper()
	r.Header.Set("X-Forwarded-For", b.source)
	answer, err := b.client.Do(r)
	if err != nil {
		b.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		return response{Response: &http.Response{Header: http.Header{}}}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	return response{Response: answer, body: string(body)}
}

func (b *browser) request(method, path string, form url.Values) *http.Request {
	b.t.Helper()
	r := testkit.Value(http.NewRequestWithContext(b.t.Context(), method, b.URL+path, strings.NewReader(form.Encode())))(b.t)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

func (b *browser) get(path string) response {
	b.t.Helper()
	return b.send(b.request(http.MethodGet, path, nil))
}

// poll requests a part of a page like htmx.
func (b *browser) poll(path string) response {
	b.t.Helper()
	r := b.request(http.MethodGet, path, nil)
	r.Header.Set("Hx-Request", "true")
	return b.send(r)
}

func (b *browser) signIn(token string) response {
	b.t.Helper()
	return b.send(b.request(http.MethodPost, "/sign-in", url.Values{"token": {token}}))
}
