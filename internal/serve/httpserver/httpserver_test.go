package httpserver_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options returns working options for plain HTTP: every path of the public port returns 204.
func options() httpserver.Options {
	return httpserver.Options{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
		Limits: httpserver.Limits{
			Header: 5 * time.Second, Body: 5 * time.Second, Write: 5 * time.Second, Idle: time.Minute, HeaderBytes: 64 << 10, BodyBytes: 1 << 10,
		},
		Memory: httpserver.Divide(256 << 20),
		Reject: func(w http.ResponseWriter, status int) { w.WriteHeader(status) },
		Listen: "127.0.0.1:0", OperationsListen: "127.0.0.1:0",
		Logger: slog.New(slog.DiscardHandler),
	}
}

// instance is a server that runs until its context is canceled.
type instance struct {
	*httpserver.Server
	client *http.Client
	cancel context.CancelFunc
	wait   func() error // returns the result of Run
}

func start(t *testing.T, o httpserver.Options) *instance {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	server := testkit.Value(httpserver.Listen(ctx, o))(t)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	i := &instance{Server: server, client: &http.Client{Transport: transport}, cancel: cancel}
	result := make(chan error, 1)
	go func() { result <- server.Run(ctx) }()
	i.wait = sync.OnceValue(func() error {
		transport.CloseIdleConnections()
		return <-result
	})
	t.Cleanup(func() {
		cancel()
		_ = i.wait()
	})
	return i
}

func (i *instance) get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	response := testkit.Value(i.client.Get(url))(t)
	defer response.Body.Close()
	body := testkit.Value(io.ReadAll(response.Body))(t)
	return response, string(body)
}

// statuses returns the HTTP status of each path of the operations port.
func (i *instance) statuses(t *testing.T) map[string]int {
	t.Helper()
	statuses := map[string]int{}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/"} {
		response, _ := i.get(t, "http://"+i.OperationsAddr().String()+path)
		statuses[path] = response.StatusCode
	}
	return statuses
}

func TestOperations(t *testing.T) {
	var ready atomic.Bool
	o := options()
	o.Metrics = prometheus.NewRegistry()
	o.Ready = func() error {
		if !ready.Load() {
			return errors.New("no records")
		}
		return nil
	}
	i := start(t, o)
	testkit.Diff(t, "before the process is ready", map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 200, "/": 404}, i.statuses(t))
	if _, body := i.get(t, "http://"+i.OperationsAddr().String()+"/readyz"); body != "not ready: no records\n" {
		t.Errorf("/readyz returned %q", body)
	}
	if response, _ := i.get(t, "http://"+i.Addr().String()); !response.Close {
		t.Error("the connection stays open although the process is not ready")
	}
	ready.Store(true)
	testkit.Diff(t, "after the process is ready", map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/": 404}, i.statuses(t))
}

func TestDrain(t *testing.T) {
	t.Parallel()
	var stopped atomic.Bool
	o := options()
	o.DrainDelay = 500 * time.Millisecond
	o.PublicStopped = func(context.Context) { stopped.Store(true) }
	i := start(t, o)
	public, operations := "http://"+i.Addr().String(), "http://"+i.OperationsAddr().String()
	if response, _ := i.get(t, public); response.StatusCode != http.StatusNoContent || response.Close {
		t.Errorf("before draining: status %d, closes the connection: %t", response.StatusCode, response.Close)
	}
	i.cancel()
	for {
		response, body := i.get(t, operations+"/readyz")
		if response.StatusCode == http.StatusServiceUnavailable && strings.Contains(body, "shutting down") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if response, _ := i.get(t, public); response.StatusCode != http.StatusNoContent || !response.Close {
		t.Errorf("while draining: status %d, closes the connection: %t", response.StatusCode, response.Close)
	}
	if stopped.Load() {
		t.Error("PublicStopped was called while the public port was open")
	}
	if err := i.wait(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if !stopped.Load() {
		t.Error("PublicStopped was not called")
	}
	for _, address := range []net.Addr{i.Addr(), i.OperationsAddr()} {
		if conn, err := net.Dial("tcp", address.String()); err == nil {
			conn.Close()
			t.Errorf("%s still accepts connections", address)
		}
	}
}

// Run waits for requests in flight, while the operations port still serves.
func TestShutdownWaitsForRequests(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	o := options()
	o.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		w.WriteHeader(http.StatusNoContent)
	})
	i := start(t, o)
	status := make(chan int, 1)
	go func() {
		response, err := i.client.Get("http://" + i.Addr().String())
		if err != nil {
			status <- 0
			return
		}
		response.Body.Close()
		status <- response.StatusCode
	}()
	<-arrived
	i.cancel()
	if response, _ := i.get(t, "http://"+i.OperationsAddr().String()+"/healthz"); response.StatusCode != http.StatusOK {
		t.Errorf("/healthz returned %d during shutdown", response.StatusCode)
	}
	close(release)
	testkit.Diff(t, "status of the request in flight", http.StatusNoContent, <-status)
	if err := i.wait(); err != nil {
		t.Errorf("Run returned %v", err)
	}
}

func withCertificate(t *testing.T, o httpserver.Options) httpserver.Options {
	t.Helper()
	dir := t.TempDir()
	authority := testkit.Value(pki.NewCA(nil, 24*time.Hour, time.Now(), rand.Reader))(t)
	o.CertFile, o.KeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for path, content := range map[string][]byte{o.CertFile: authority.Certificate, o.KeyFile: authority.Key} {
		testkit.Do(t, os.WriteFile(path, content, 0o600))
	}
	return o
}

// A client whose connection was idle for too long knows that none of its requests was lost: it gets a GOAWAY frame
// with HTTP/2, and a close_notify alert.
func TestIdleConnectionsAreClosedPolitely(t *testing.T) {
	o := withCertificate(t, options())
	o.Limits.Idle = time.Second // A handshake on a busy machine takes less.
	i := start(t, o)
	for protocol, sent := range map[string]string{
		"http/1.1": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"h2":       "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", // and an empty SETTINGS frame
	} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			conn := testkit.Value(tls.Dial("tcp", i.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}))(t)
			defer conn.Close()
			testkit.Value(conn.Write([]byte(sent)))(t)
			received, err := io.ReadAll(conn) // an error without close_notify
			if err != nil {
				t.Errorf("connection ended with %v, want close_notify", err)
			}
			const goAway = "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00"
			if protocol == "h2" && !strings.HasSuffix(string(received), goAway) {
				t.Errorf("received %x, want a GOAWAY frame at the end", received)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	i := start(t, withCertificate(t, options()))
	if response, _ := i.get(t, "https://"+i.Addr().String()); response.StatusCode != http.StatusNoContent || response.ProtoMajor != 2 {
		t.Errorf("status %d with %s, want 204 with HTTP/2", response.StatusCode, response.Proto)
	}
	i.cancel()
	if err := i.wait(); err != nil {
		t.Errorf("Run returned %v", err)
	}
}

func TestListenNamesTheFlag(t *testing.T) {
	tests := map[string]struct {
		change func(*httpserver.Options)
		want   string
	}{
		"missing certificate":     {func(o *httpserver.Options) { o.CertFile, o.KeyFile = "none", "none" }, "--tls-cert-file"},
		"bad address":             {func(o *httpserver.Options) { o.Listen = "nowhere" }, "--listen"},
		"bad operations address":  {func(o *httpserver.Options) { o.OperationsListen = "127.0.0.1:99999" }, "--operations-listen"},
		"public address not free": {func(o *httpserver.Options) { o.Listen = occupied(t) }, "--listen"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := options()
			tc.change(&o)
			if _, err := httpserver.Listen(t.Context(), o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v does not name %s", err, tc.want)
			}
		})
	}
}

// occupied returns an address that another listener uses.
func occupied(t *testing.T) string {
	t.Helper()
	listener := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

func TestReusePort(t *testing.T) {
	o := options()
	o.ReusePort = true
	first := start(t, o)
	o.Listen = first.Addr().String()
	second := start(t, o)
	testkit.Diff(t, "address", second.Addr().String(), first.Addr().String())
}

// net/http would read the body of this request itself, without the limits.
func TestGeneralOptionsReachTheHandler(t *testing.T) {
	i := start(t, options())
	conn := testkit.Value(net.Dial("tcp", i.Addr().String()))(t)
	defer conn.Close()
	testkit.Value(io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))(t)
	got, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 204 ") {
		t.Errorf("got %q: %v", got, err)
	}
}
