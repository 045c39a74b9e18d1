package portal_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/faces/portal"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
)

// issuer is an OpenID Connect issuer that can misbehave. test/portal has one that signs tokens.
type issuer struct {
	*httptest.Server

	requests atomic.Int64
	// behave, if set, responds instead. It reports whether it did.
	behave atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
}

func startIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.Server = httptest.NewTLSServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) set(behave func(http.ResponseWriter, *http.Request) bool) { i.behave.Store(&behave) }

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // so that the server notices a disconnected client
	i.requests.Add(1)
	w.Header().Set("Content-Type", "application/json")
	if behave := i.behave.Load(); behave != nil && (*behave)(w, r) {
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":%[1]q,"token_endpoint":"%[1]s/token","jwks_uri":"%[1]s/keys"}`, i.URL)
	case "/token":
		encode := base64.RawURLEncoding.EncodeToString
		claims := fmt.Sprintf(`{"iss":%q,"aud":"portal","sub":"grace","exp":%d}`, i.URL, time.Now().Add(time.Hour).Unix())
		token := encode([]byte(`{"alg":"RS256","kid":"1"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte("forged"))
		fmt.Fprintf(w, `{"access_token":"x","token_type":"Bearer","id_token":%q}`, token)
	default:
		fmt.Fprint(w, `{"keys":[]}`)
	}
}

// startPortalWith starts a portal whose users sign in at the issuer.
func startPortalWith(t *testing.T, i *issuer, timeout time.Duration, change ...func(*portal.Options, *access.Sessions)) *fixture {
	t.Helper()
	return startPortal(t, append(change, func(o *portal.Options, sessions *access.Sessions) {
		roots := x509.NewCertPool()
		roots.AddCert(i.Certificate())
		o.Provider = access.NewProvider(access.ProviderOptions{
			Issuer: i.URL, ClientID: "portal", RedirectURL: "https://portal.example.com/sign-in/callback", Roots: roots, Timeout: timeout,
		}, sessions)
	})...)
}

// begin starts a sign-in at the issuer and returns the path of the callback.
func (b *browser) begin() string {
	b.t.Helper()
	got := b.get("/sign-in/begin")
	location, err := url.Parse(got.Header.Get("Location"))
	if err != nil || got.StatusCode != http.StatusSeeOther {
		b.t.Fatalf("Status of a sign-in is %d, want 303 to the issuer", got.StatusCode)
	}
	return "/sign-in/callback?code=forged&state=" + location.Query().Get("state")
}

// An issuer that hangs delays no other user: one request waits for it, users with a Kubernetes token
// sign in, and those who wait get a response.
func TestHangingIssuerDelaysNoOtherUser(t *testing.T) {
	t.Parallel()
	i := startIssuer(t)
	arrived, respond := make(chan struct{}, 100), make(chan struct{})
	i.set(func(http.ResponseWriter, *http.Request) bool {
		arrived <- struct{}{}
		<-respond
		return false
	})
	f := startPortalWith(t, i, time.Hour, func(o *portal.Options, _ *access.Sessions) { o.Timeout = 500 * time.Millisecond })
	var waiting sync.WaitGroup
	for range 10 {
		b := f.browser(attacker)
		waiting.Go(func() {
			if got := b.get("/sign-in/begin"); got.StatusCode != http.StatusBadGateway {
				t.Errorf("Status while the issuer hangs is %d, want 502", got.StatusCode)
			}
		})
	}
	<-arrived
	b := f.browser(elsewhere)
	if got := b.signIn(goodToken); got.StatusCode != http.StatusSeeOther {
		t.Errorf("Status of a sign-in with a Kubernetes token is %d, want 303", got.StatusCode)
	}
	if got := b.get("/clients"); got.StatusCode != http.StatusOK {
		t.Errorf("Status of the clients page is %d, want 200", got.StatusCode)
	}
	waiting.Wait()
	close(respond)
	if got := b.get("/sign-in/begin"); got.StatusCode != http.StatusSeeOther {
		t.Errorf("Status after the issuer responded is %d, want 303", got.StatusCode)
	}
	if got := i.requests.Load(); got != 1 {
		t.Errorf("Issuer got %d requests, want 1", got)
	}
}

// Only a limited number of sign-ins waits for a hanging issuer.
func TestSignInsWaitingForIssuerAreLimited(t *testing.T) {
	t.Parallel()
	i := startIssuer(t)
	i.set(func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	})
	f := startPortalWith(t, i, time.Minute)
	ctx, disconnect := context.WithCancel(t.Context())
	busy := make(chan struct{}, 100)
	var waiting sync.WaitGroup
	const users, served = 40, 16
	for k := range users {
		b := f.browser(fmt.Sprintf("10.0.0.%d", k))
		waiting.Go(func() {
			r := b.request(http.MethodGet, "/sign-in/begin", nil).WithContext(ctx)
			r.Header.Set("X-Forwarded-For", b.source)
			answer, err := b.client.Do(r)
			if err != nil {
				return
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
				t.Errorf("Status %d, Retry-After %q; want 503 with Retry-After", answer.StatusCode, answer.Header.Get("Retry-After"))
			}
			busy <- struct{}{}
		})
	}
	for range users - served {
		<-busy
	}
	disconnect()
	waiting.Wait()
	if len(busy) > 0 {
		t.Errorf("%d more sign-ins were rejected, want %d", len(busy), users-served)
	}
	f.CloseClientConnections()
	i.CloseClientConnections() // ends the discovery
}

// A response that never ends, in whatever way, ends the sign-in with an error and nothing else.
func TestIssuerResponseIsBounded(t *testing.T) {
	t.Parallel()
	const short, forever = 200 * time.Millisecond, time.Hour
	sent := &atomic.Int64{}
	const discovery, token, keys = "/.well-known/openid-configuration", "/token", "/keys"
	behaviors := map[string]struct {
		timeout time.Duration
		paths   []string
		respond func(w http.ResponseWriter, r *http.Request)
	}{
		"hangs": {short, []string{discovery, token, keys}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		"drips": {short, []string{token}, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Millisecond)
			}
		}},
		"sends a body without end": {forever, []string{discovery, token, keys}, func(w http.ResponseWriter, r *http.Request) {
			spaces := strings.Repeat(" ", 64<<10)
			for r.Context().Err() == nil {
				n, _ := io.WriteString(w, spaces)
				sent.Add(int64(n))
			}
		}},
		"sends large headers": {forever, []string{keys}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("x", 900<<10))
		}},
		"redirects to itself": {forever, []string{token}, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}},
	}
	for name, behavior := range behaviors {
		for _, path := range behavior.paths {
			t.Run(name+" at "+path, func(t *testing.T) {
				i := startIssuer(t)
				i.set(func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path != path {
						return false
					}
					behavior.respond(w, r)
					return true
				})
				sent.Store(0)
				f := startPortalWith(t, i, behavior.timeout)
				b := f.browser(elsewhere)
				next := "/sign-in/begin"
				if path != discovery {
					f.awaitDiscovery(t) // The timeout is short for it on a busy machine.
					next = b.begin()
				}
				got := b.get(next)
				if got.StatusCode != http.StatusBadGateway || !strings.Contains(got.body, "The identity provider is unavailable") {
					t.Errorf("Status is %d, want 502:\n%s", got.StatusCode, got.body)
				}
				if sent.Load() > 32<<20 {
					t.Errorf("Portal read %d bytes of a response", sent.Load())
				}
				if events, _ := f.audited(1); events[0].Outcome != audit.Failed || events[0].Reason != audit.ReasonIssuer {
					t.Errorf("Event is %+v, want failed with reason issuer", events[0])
				}
				if got := f.browser(elsewhere).signIn(goodToken); got.StatusCode != http.StatusSeeOther {
					t.Errorf("Status of a sign-in with a Kubernetes token is %d, want 303", got.StatusCode)
				}
			})
		}
	}
}

// After a failed discovery, sign-ins cause at most one request in a second. The next one succeeds.
func TestDiscoveryIsRetried(t *testing.T) {
	t.Parallel()
	i := startIssuer(t)
	i.set(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	f := startPortalWith(t, i, time.Minute)
	began := time.Now()
	for range 10 {
		if got := f.browser(elsewhere).get("/sign-in/begin"); got.StatusCode != http.StatusBadGateway {
			t.Errorf("Status is %d, want 502", got.StatusCode)
		}
	}
	if got, limit := i.requests.Load(), int64(time.Since(began)/time.Second)+1; got > limit {
		t.Errorf("Issuer got %d requests, want at most %d", got, limit)
	}
	i.set(func(http.ResponseWriter, *http.Request) bool { return false })
	f.awaitDiscovery(t)
}

// awaitDiscovery starts sign-ins until the portal has the issuer's metadata.
func (f *fixture) awaitDiscovery(t *testing.T) {
	t.Helper()
	for f.browser("10.0.0.1").get("/sign-in/begin").StatusCode != http.StatusSeeOther {
		if t.Context().Err() != nil {
			t.Fatal("Discovery isn't retried")
		}
		f.pass(ratelimit.FailureInterval)
	}
}

// Failed callbacks count as failures. Beyond the limit, the issuer gets no requests.
func TestFailedCallbacksAreThrottled(t *testing.T) {
	t.Parallel()
	rejectCode := func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/token" {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
		return true
	}
	tests := map[string]func(b *browser) string{
		"forged code":          (*browser).begin,
		"unsolicited callback": func(*browser) string { return "/sign-in/callback?code=x&state=y" },
		"another state":        func(b *browser) string { return b.begin() + "x" },
		"denied by the issuer": func(b *browser) string { return b.begin() + "&error=access_denied" },
	}
	for name, callback := range tests {
		t.Run(name, func(t *testing.T) {
			i := startIssuer(t)
			i.set(rejectCode)
			f := startPortalWith(t, i, time.Minute)
			b := f.browser(attacker)
			for range ratelimit.FailureBurst {
				if got := b.get(callback(b)); got.StatusCode != http.StatusForbidden {
					t.Fatalf("Status is %d, want 403:\n%s", got.StatusCode, got.body)
				}
			}
			before := i.requests.Load()
			if got := b.get("/sign-in/callback?code=x&state=y"); got.StatusCode != http.StatusTooManyRequests {
				t.Errorf("Status is %d, want 429", got.StatusCode)
			}
			if got := b.get("/sign-in/begin"); got.StatusCode != http.StatusTooManyRequests {
				t.Errorf("Status of another sign-in is %d, want 429", got.StatusCode)
			}
			if got := i.requests.Load(); got != before {
				t.Errorf("Issuer got %d requests, want none", got-before)
			}
			events, _ := f.audited(ratelimit.FailureBurst)
			if events[0].Outcome != audit.Refused || events[0].Reason != audit.ReasonSignInRejected {
				t.Errorf("Event is %+v, want refused with reason sign_in_rejected", events[0])
			}
		})
	}
}

// A response without an OAuth error can contain anything, so only its status is logged.
func TestTokenResponseIsNotLogged(t *testing.T) {
	t.Parallel()
	i := startIssuer(t)
	i.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/token" {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "confidential")
		return true
	})
	logged := make(logWriter, 1)
	f := startPortalWith(t, i, time.Minute, func(o *portal.Options, _ *access.Sessions) {
		o.Logger = slog.New(slog.NewTextHandler(logged, nil))
	})
	b := f.browser(elsewhere)
	b.get(b.begin())
	if line := <-logged; !strings.Contains(line, "500 Internal Server Error") || strings.Contains(line, "confidential") {
		t.Errorf("The log contains %s", line)
	}
}

// logWriter sends each line of a log.
type logWriter chan string

func (w logWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}
