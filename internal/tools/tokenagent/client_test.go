package tokenagent_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tools/tokenagent"
)

const (
	clientID     = "acme-apps.billing"
	clientSecret = "rk_JustASecretOfATest"
	assertion    = "header.claims.signature"
	issued       = `{"access_token":"new.access.token","token_type":"bearer","expires_in":300}`
)

// server is a token endpoint that records what it gets.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	respond  http.HandlerFunc
	requests []*http.Request
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		s.mu.Lock()
		s.requests = append(s.requests, r)
		respond := s.respond
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		respond(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that don't trust the certificate
	s.StartTLS()
	s.set(http.StatusOK, issued)
	t.Cleanup(s.Close)
	return s
}

// set sets the response. headers are names and values.
func (s *server) set(status int, body string, headers ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.respond = func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func (s *server) tokenURL() string { return s.URL + "/acme/oauth2/token" }

// credentials returns a directory like that of a mounted credentials Secret.
func (s *server) credentials(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	for name, content := range map[string]string{
		"client_id": clientID, "client_secret": clientSecret, "cluster_token_url": s.tokenURL(), "token_url": "https://127.0.0.1:1/", "ca.crt": string(authority),
		"serviceaccount": assertion,
	} {
		write(t, dir, name, content)
	}
	return dir
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	testkit.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}

func (s *server) last(t *testing.T) *http.Request {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == 0 {
		t.Fatal("the token endpoint got no request")
	}
	return s.requests[len(s.requests)-1]
}

func TestRequestWithSecret(t *testing.T) {
	s := newServer(t)
	dir := s.credentials(t)
	c := tokenagent.Client{CredentialsDir: dir, Scope: "orders.read  orders.write", Audience: "https://a.example https://b.example"}
	before := time.Now()
	token := testkit.Value(c.Request(t.Context()))(t)
	if token.Value != "new.access.token" || token.Lifetime != lifetime || token.Expires.Before(before.Add(lifetime)) || token.Expires.After(time.Now().Add(lifetime)) {
		t.Errorf("%+v", token)
	}
	r := s.last(t)
	if id, secret, _ := r.BasicAuth(); id != clientID || secret != clientSecret || r.URL.Path != "/acme/oauth2/token" {
		t.Errorf("%s with %s, %s", r.URL, id, secret)
	}
	testkit.Diff(t, "form", url.Values{
		"grant_type": {"client_credentials"}, "scope": {"orders.read orders.write"}, "audience": {"https://a.example https://b.example"},
	}, r.PostForm)

	// The files are read again for each request. A line break at the end isn't part of a value.
	write(t, dir, "client_secret", "rotated:+%\n")
	testkit.Value(c.Request(t.Context()))(t)
	if _, secret, _ := s.last(t).BasicAuth(); secret != url.QueryEscape("rotated:+%") {
		t.Errorf("the secret after a rotation is %q", secret)
	}

	// Outside of a cluster, the Secret can lack the URL for Pods.
	testkit.Do(t, os.Remove(filepath.Join(dir, "cluster_token_url")))
	write(t, dir, "token_url", s.tokenURL()+"?grant_type=client_credentials")
	testkit.Value(c.Request(t.Context()))(t)
	c.TokenURL = s.URL + "/other"
	testkit.Value(c.Request(t.Context()))(t)
	if path := s.last(t).URL.Path; path != "/other" {
		t.Errorf("with another URL, the request has the path %s", path)
	}
}

func TestRequestWithServiceAccount(t *testing.T) {
	s := newServer(t)
	dir := s.credentials(t)
	c := tokenagent.Client{ServiceAccountTokenFile: filepath.Join(dir, "serviceaccount"), TokenURL: s.tokenURL(), CAFile: filepath.Join(dir, "ca.crt")}
	testkit.Value(c.Request(t.Context()))(t)
	want := url.Values{
		"grant_type":            {"client_credentials"},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		"client_assertion":      {assertion},
	}
	testkit.Diff(t, "form", want, s.last(t).PostForm)
	if header := s.last(t).Header.Get("Authorization"); header != "" {
		t.Errorf("the request has the header %q", header)
	}
	c.ClientID = clientID
	write(t, dir, "serviceaccount", "renewed.by.kubelet")
	testkit.Value(c.Request(t.Context()))(t)
	want.Set("client_id", clientID)
	want.Set("client_assertion", "renewed.by.kubelet")
	testkit.Diff(t, "form", want, s.last(t).PostForm)
}

// Each failure is one line that says what to do, without a secret, and has a code in the metrics.
func TestFailures(t *testing.T) {
	other := newServer(t)
	oauthError := func(code string) string {
		return fmt.Sprintf(`{"error":%q,"error_description":"Something about %s."}`, code, code)
	}
	for name, test := range map[string]struct {
		change     func(t *testing.T, s *server, c *tokenagent.Client)
		code, want string
	}{
		"no directory": {
			func(_ *testing.T, _ *server, c *tokenagent.Client) { c.CredentialsDir = "/nonexistent" },
			"credentials", "^cannot read /nonexistent/client_id: no such file or directory: mount the credentials Secret",
		},
		"no secret": {
			func(t *testing.T, _ *server, c *tokenagent.Client) {
				testkit.Do(t, os.Remove(filepath.Join(c.CredentialsDir, "client_secret")))
			},
			"credentials", "client_secret: no such file or directory: mount",
		},
		"unreadable file": { // root can read all files, but no directory
			func(t *testing.T, _ *server, c *tokenagent.Client) {
				path := filepath.Join(c.CredentialsDir, "client_secret")
				testkit.Do(t, os.Remove(path))
				testkit.Do(t, os.Mkdir(path, 0o700))
			},
			"credentials", "client_secret: is a directory: mount",
		},
		"empty file": {
			func(t *testing.T, _ *server, c *tokenagent.Client) { write(t, c.CredentialsDir, "client_id", "\n") },
			"credentials", "client_id is empty: mount",
		},
		"no service account token": {
			func(_ *testing.T, s *server, c *tokenagent.Client) {
				*c = tokenagent.Client{ServiceAccountTokenFile: "/nonexistent/token", TokenURL: s.tokenURL()}
			},
			"credentials", "^cannot read /nonexistent/token: no such file or directory: mount a projected service account token",
		},
		"token URL without TLS": {
			func(t *testing.T, _ *server, c *tokenagent.Client) {
				write(t, c.CredentialsDir, "cluster_token_url", "http://api.example.com/acme/oauth2/token")
			},
			"credentials", "must be an HTTPS URL",
		},
		"CA that isn't PEM": {
			func(t *testing.T, _ *server, c *tokenagent.Client) { write(t, c.CredentialsDir, "ca.crt", "none") },
			"credentials", "ca.crt contains no certificate in PEM format",
		},
		"no CA file": {
			func(_ *testing.T, _ *server, c *tokenagent.Client) { c.CAFile = "/nonexistent" },
			"credentials", "^cannot read /nonexistent: no such file",
		},
		"no CA": {
			func(t *testing.T, _ *server, c *tokenagent.Client) {
				testkit.Do(t, os.Remove(filepath.Join(c.CredentialsDir, "ca.crt")))
			},
			"certificate", "is not trusted: .*unknown authority: check the host name, and ca.crt",
		},
		"certificate of another host": {
			func(t *testing.T, s *server, c *tokenagent.Client) {
				write(t, c.CredentialsDir, "cluster_token_url", strings.Replace(s.tokenURL(), "127.0.0.1", "localhost", 1))
			},
			"certificate", "is not trusted: .*localhost",
		},
		"no server": {
			func(t *testing.T, _ *server, c *tokenagent.Client) {
				write(t, c.CredentialsDir, "cluster_token_url", "https://127.0.0.1:1/acme/oauth2/token?grant_type=client_credentials")
			},
			"connection", "^no response from https://127.0.0.1:1/acme/oauth2/token: .*refused$",
		},
		"other realm": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) { s.set(404, oauthError("invalid_request")) },
			"not_found", "token does not exist \\(404\\): check the name of the realm",
		},
		"invalid_client": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) { s.set(401, oauthError("invalid_client")) },
			"invalid_client", `returned invalid_client "Something about invalid_client": check the client ID and secret, and that the ApiClient is Ready$`,
		},
		"invalid_client of a service account": {
			func(_ *testing.T, s *server, c *tokenagent.Client) {
				*c = tokenagent.Client{ServiceAccountTokenFile: filepath.Join(c.CredentialsDir, "serviceaccount"), TokenURL: s.tokenURL(), CAFile: filepath.Join(c.CredentialsDir, "ca.crt")}
				s.set(401, oauthError("invalid_client"))
			},
			"invalid_client", "the audience of the service account token is the issuer of the realm$",
		},
		"invalid_scope": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) { s.set(400, oauthError("invalid_scope")) },
			"invalid_scope", "correct --scope",
		},
		"too many requests": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) { s.set(429, oauthError("temporarily_unavailable")) },
			"temporarily_unavailable", "busy",
		},
		"unknown error": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) { s.set(400, oauthError("custom")) },
			"response", "returned status 400 without an OAuth error",
		},
		"error of a proxy": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) {
				s.set(502, "<html>"+clientSecret, "Content-Type", "text/html")
			},
			"response", "returned status 502 without an OAuth error: check the token URL, and proxies$",
		},
		"page instead of a token": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) { s.set(200, "<html>", "Content-Type", "text/html") },
			"response", "returned something else than a token",
		},
		"token without expires_in": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) { s.set(200, `{"access_token":"new.access.token"}`) },
			"response", "without expires_in",
		},
		"token that has expired": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) {
				s.set(200, `{"access_token":"new.access.token","expires_in":-300}`)
			},
			"response", "an expires_in that is not positive",
		},
		"bound token": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) {
				s.set(200, `{"access_token":"new.access.token","token_type":"DPoP","expires_in":300}`)
			},
			"response", "token_type is not Bearer",
		},
		"token of padding": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) {
				s.set(200, `{"access_token":"==","expires_in":300}`)
			},
			"response", "characters that RFC 6750 does not allow",
		},
		"long response": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) { s.set(200, issued+strings.Repeat(" ", 64<<10)) },
			"response", "returned something else than a token",
		},
		"token with a line break": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) {
				s.set(200, `{"access_token":"new.access.token\nmore","expires_in":300}`)
			},
			"response", "characters that RFC 6750 does not allow",
		},
		"description with the secret": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) {
				s.set(401, `{"error":"invalid_client","error_description":"`+clientSecret+` is wrong"}`)
			},
			"invalid_client", "returned invalid_client: check",
		},
		"description with the header": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) {
				header := base64.StdEncoding.EncodeToString([]byte(clientID + ":" + clientSecret))
				s.set(401, `{"error":"invalid_client","error_description":"Basic `+header+` is wrong"}`)
			},
			"invalid_client", "returned invalid_client: check",
		},
		"description with control characters": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) {
				s.set(400, `{"error":"invalid_scope","error_description":"a\nb\u001b[2J"}`)
			},
			"invalid_scope", `returned invalid_scope "a\\nb\\x1b\[2J": correct`,
		},
		"redirect": {
			func(_ *testing.T, s *server, _ *tokenagent.Client) {
				s.set(307, "", "Location", other.URL)
			},
			"response", "returned status 307 without an OAuth error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			c := &tokenagent.Client{CredentialsDir: s.credentials(t)}
			test.change(t, s, c)
			_, err := c.Request(t.Context())
			if err == nil {
				t.Fatal("the request succeeded")
			}
			text := err.Error()
			if !regexp.MustCompile(test.want).MatchString(text) || strings.ContainsAny(text, "\n\x1b") {
				t.Errorf("the error is %q, want one line that matches %q", text, test.want)
			}
			for _, secret := range []string{clientSecret, assertion, "new.access.token"} {
				if strings.Contains(text, secret) {
					t.Errorf("the error contains a secret: %s", text)
				}
			}
			if got := metric(t, failOnce(t, c), `realmkeeper_token_agent_failures_total{code="`+test.code+`"}`); got != "1" {
				t.Errorf("the metrics don't have the code %s", test.code)
			}
		})
	}
	if len(other.requests) > 0 {
		t.Error("the credentials were sent to another server, after a redirect")
	}
}

// failOnce returns the metrics of an agent after a failure, and checks that its log contains no secret.
func failOnce(t *testing.T, c *tokenagent.Client) *tokenagent.Metrics {
	t.Helper()
	output := &bytes.Buffer{}
	ctx, cancel := context.WithCancel(t.Context())
	agent := tokenagent.Agent{
		Request: c.Request, File: tokenagent.File{Path: filepath.Join(t.TempDir(), "token")},
		Logger: slog.New(slog.NewJSONHandler(output, nil)), Metrics: &tokenagent.Metrics{}, Now: time.Now,
		Random: func() float64 { // for the delay after the first failure
			cancel()
			return 0
		},
	}
	agent.Run(ctx)
	for _, secret := range []string{clientSecret, assertion} {
		if strings.Contains(output.String(), secret) {
			t.Errorf("the log contains a secret:\n%s", output)
		}
	}
	return agent.Metrics
}

func TestLifetimeIsAtMostADay(t *testing.T) {
	s := newServer(t)
	c := tokenagent.Client{CredentialsDir: s.credentials(t)}
	s.set(200, `{"access_token":"new.access.token","expires_in":999999999}`)
	if token := testkit.Value(c.Request(t.Context()))(t); token.Lifetime != 24*time.Hour || token.Expires.After(time.Now().Add(24*time.Hour)) {
		t.Errorf("the lifetime is %s, and the token expires at %s", token.Lifetime, token.Expires)
	}
}

func TestResponseThatDoesNotEnd(t *testing.T) {
	s := newServer(t)
	c := tokenagent.Client{CredentialsDir: s.credentials(t)}
	s.respond = func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		testkit.Do(t, http.NewResponseController(w).Flush())
		<-r.Context().Done()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.Request(ctx); err == nil || err.Error() != "no complete response from "+s.tokenURL() {
		t.Errorf("got %v", err)
	}
}

// The agent waits for Retry-After, also as a date. A new client that isn't known yet gets its token soon.
func TestWaitsForRetryAfter(t *testing.T) {
	s := newServer(t)
	dir, c := t.TempDir(), tokenagent.Client{CredentialsDir: s.credentials(t)}
	for name, test := range map[string]struct {
		header      func() string
		least, most time.Duration
	}{
		"seconds":    {func() string { return "60" }, time.Minute, 90 * time.Second},
		"date":       {func() string { return time.Now().Add(time.Minute).UTC().Format(http.TimeFormat) }, 59 * time.Second, 90 * time.Second},
		"too long":   {func() string { return "86400" }, 5 * time.Minute, 450 * time.Second},
		"no range":   {func() string { return "99999999999999999999" }, 5 * time.Minute, 450 * time.Second},
		"no header":  {func() string { return "" }, time.Second, 1500 * time.Millisecond},
		"not a time": {func() string { return "soon" }, time.Second, 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s.set(503, `{"error":"temporarily_unavailable"}`, "Retry-After", test.header())
				h := newHarness(dir, 1)
				h.Request = func(ctx context.Context) (tokenagent.Token, error) {
					h.endpoint.requests = append(h.endpoint.requests, time.Now())
					return c.Request(ctx)
				}
				h.start(t)
				s.set(200, issued)
				pass(time.Second * 451)
				h.stop()
				if got := h.endpoint.intervals()[0]; got < test.least || got > test.most {
					t.Errorf("the next attempt is after %s, want %s to %s", got, test.least, test.most)
				}
			})
		})
	}
}

// A minute in which token servers don't respond, or nobody can connect to them, is shorter than what is left of a token
// of five minutes, whenever it begins.
func TestReadersSurviveAMinuteWithoutTokenServers(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for i := range 60 {
			h := newHarness(dir, uint64(i))
			var outage atomic.Int64 // its end, in nanoseconds since 1970
			h.Request = func(ctx context.Context) (tokenagent.Token, error) {
				if time.Now().UnixNano() < outage.Load() {
					if i%2 == 0 { // no response
						time.Sleep(10 * time.Second)
					}
					return tokenagent.Token{}, tokenagent.ErrNoResponse
				}
				return h.endpoint.request(ctx)
			}
			h.start(t)
			pass(time.Hour + time.Duration(i)*time.Second)
			began := time.Now()
			outage.Store(began.Add(time.Minute).UnixNano())
			for range 180 {
				pass(time.Second)
				if h.token(t) == "" {
					t.Fatalf("run %d: the file was removed %s after the start of the outage", i, time.Since(began))
				}
			}
			h.stop()
		}
	})
}
