package tokenserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
)

func TestServerLimitsCoverEveryStep(t *testing.T) {
	limits := tokenserver.ServerLimits(httpserver.DefaultIdle)
	tests := map[string]struct{ got, limit time.Duration }{
		"reading headers": {limits.Header, 3 * time.Second},
		"reading bodies":  {limits.Body, 3 * time.Second},
		"writing":         {limits.Write, 30 * time.Second},
		"idling":          {limits.Idle, 75 * time.Second},
	}
	for name, tc := range tests {
		if tc.got <= 0 || tc.got > tc.limit {
			t.Errorf("%s: got %s, want more than 0 and at most %s", name, tc.got, tc.limit)
		}
	}
	if limits.HeaderBytes < oauth.MaxHeaderBytes || limits.HeaderBytes > 64<<10 {
		t.Errorf("got a header limit of %d bytes, want %d to %d", limits.HeaderBytes, oauth.MaxHeaderBytes, 64<<10)
	}
}

// Clients such as Java's HttpClient neither wait nor open another connection when a connection has too many streams.
func TestHundredRequestsOnOneConnection(t *testing.T) {
	s := startLoaded(t)
	var connections atomic.Int32
	client := s.clientOf(t, "HTTP/2")
	transport, _ := client.Transport.(*http.Transport)
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		connections.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	s.send(t, client, request{query: grant, authorization: good})
	for _, r := range []request{{query: grant, authorization: good}, {body: grant, authorization: good}} {
		var requests sync.WaitGroup
		for range 100 {
			requests.Go(func() {
				for range 20 {
					expectStatus(t, "response", 200, s.send(t, client, r))
				}
			})
		}
		requests.Wait()
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestTLSVersions(t *testing.T) {
	s := startLoaded(t)
	tests := map[string]struct {
		version   uint16
		protocols []string
		want      string // the negotiated protocol
		wantErr   bool
	}{
		"1.3":          {version: tls.VersionTLS13, protocols: []string{"h2", "http/1.1"}, want: "h2"},
		"1.2":          {version: tls.VersionTLS12, protocols: []string{"h2", "http/1.1"}, want: "h2"},
		"1.2, no ALPN": {version: tls.VersionTLS12},
		"1.1":          {version: tls.VersionTLS11, wantErr: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			config := s.tlsConfig()
			config.MinVersion, config.MaxVersion, config.NextProtos = tls.VersionTLS10, tc.version, tc.protocols
			conn, err := tls.Dial("tcp", s.address(), config)
			if (err != nil) != tc.wantErr {
				t.Fatalf("handshake: %v", err)
			}
			if err != nil {
				return
			}
			defer conn.Close()
			state := conn.ConnectionState()
			if state.Version != tc.version || state.NegotiatedProtocol != tc.want {
				t.Errorf("negotiated %s and %q, want %q", tls.VersionName(state.Version), state.NegotiatedProtocol, tc.want)
			}
		})
	}
}

func TestPlainHTTPIsRejected(t *testing.T) {
	s := startLoaded(t)
	conn := testkit.Value(net.Dial("tcp", s.address()))(t)
	defer conn.Close()
	testkit.Value(io.WriteString(conn, raw(grant, "Authorization: "+good+"\r\n", "")))(t)
	got, _ := io.ReadAll(conn)
	if !bytes.HasPrefix(got, []byte("HTTP/1.0 400 ")) {
		t.Errorf("got response %q, want 400", got)
	}
}

func TestMetricsCountRequestsByResult(t *testing.T) {
	s := startLoaded(t)
	client := s.direct()
	for _, r := range []request{
		{query: grant, authorization: good},
		{query: grant, authorization: good},
		{query: grant, authorization: basic(canary, canary)},
		{query: grant + "&scope=" + canary, authorization: good},
		{query: grant + "&audience=" + canary, authorization: good},
		{query: "grant_type=" + canary, authorization: good},
		{path: "/" + canary + "/oauth2/token", query: grant, authorization: good},
		{method: "GET"},
	} {
		s.send(t, client, r)
	}
	want := `
# HELP realmkeeper_registry_clients Clients that this token server serves.
# TYPE realmkeeper_registry_clients gauge
realmkeeper_registry_clients 13
# HELP realmkeeper_registry_realms Realms that this token server serves.
# TYPE realmkeeper_registry_realms gauge
realmkeeper_registry_realms 2
# HELP realmkeeper_token_requests_total Token requests by realm, result and reason. The realm is empty if it does not exist. The result is "issued" or the OAuth 2.0 error code. The reason is the same as in the audit log.
# TYPE realmkeeper_token_requests_total counter
realmkeeper_token_requests_total{realm="",reason="invalid_request",result="invalid_request"} 2
realmkeeper_token_requests_total{realm="acme",reason="",result="issued"} 2
realmkeeper_token_requests_total{realm="acme",reason="invalid_scope",result="invalid_scope"} 1
realmkeeper_token_requests_total{realm="acme",reason="invalid_target",result="invalid_target"} 1
realmkeeper_token_requests_total{realm="acme",reason="unknown_client",result="invalid_client"} 1
realmkeeper_token_requests_total{realm="acme",reason="unsupported_grant_type",result="unsupported_grant_type"} 1
`
	exact := []string{"realmkeeper_registry_clients", "realmkeeper_registry_realms", "realmkeeper_token_requests_total"}
	testkit.Do(t, testutil.GatherAndCompare(s.metrics, strings.NewReader(want), exact...))
	families := testkit.Value(s.metrics.Gather())(t)
	for _, family := range families {
		if family.GetName() != "realmkeeper_token_request_duration_seconds" {
			continue
		}
		// Unknown realm names must not become labels.
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() != "acme" || m.GetHistogram().GetSampleCount() != 6 {
				t.Errorf("got durations %v, want 6 of realm acme", m)
			}
		}
	}
	problems, err := testutil.GatherAndLint(s.metrics)
	if diff := cmp.Diff([]promlint.Problem(nil), problems); err != nil || diff != "" {
		t.Errorf("promlint: %v\n%s", err, diff)
	}
}

// If the query contains credentials, the log reports it without their values, even if the request
// fails for a different reason.
func TestExposedCredentialsAreLogged(t *testing.T) {
	exposing := "client_secret=" + canary
	tests := map[string]struct {
		request request
		want    bool
	}{
		"with valid credentials": {request{query: grant + "&" + exposing, authorization: good}, true},
		"with GET":               {request{method: "GET", query: grant + "&" + exposing}, true},
		"unknown realm":          {request{path: "/unknown/oauth2/token", query: exposing}, true},
		"empty":                  {request{query: grant + "&client_secret=", authorization: good}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := startLoaded(t)
			s.send(t, s.direct(), tc.request)
			s.stop()
			testkit.Diff(t, "logged", tc.want, strings.Contains(s.log.String(), `"level":"WARN","msg":"Received credentials in the query string`))
		})
	}
}
