package attack_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/test/attack/target"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// A flood of junk from many sources doesn't displace the audit event of a single real decision,
// even if nothing reads the audit log during the flood. Every other event is written or counted.
func TestAuditLogUnderFlood(t *testing.T) {
	const (
		senders   = 16
		junk      = 2500 // requests of each sender, in total more than the log buffers
		decisions = 500  // of each kind
	)
	cluster := env.Start(t)
	client := target.NewClient(t, "honest")
	records := target.Fill(t, cluster, 0, client)
	pipe := newPipe(t)
	server := target.StartTokenServer(t, cluster, records, "--audit-log", pipe.path, "--trusted-proxies", honestSource+"/32")
	requests := &requester{server: server, clients: []*http.Client{newHTTPClient(t, server), newHTTPClient(t, server)}}

	var sending sync.WaitGroup
	for sender := range senders {
		sending.Go(func() {
			for i := range junk {
				source := fmt.Sprintf("10.%d.%d.%d", sender, i>>8, i&0xff)
				want := http.StatusUnauthorized
				switch i % 3 {
				case 0:
					requests.send(t, source, "unknown", "wrong", "", want)
				case 1:
					requests.send(t, source, "", "", "", want)
				case 2:
					requests.send(t, source, client.ID, "wrong", "client_secret=exposed", http.StatusBadRequest)
				}
			}
		})
	}
	want := map[string]bool{} // the "jti" of each token
	for i := range decisions {
		want[tokenID(t, requests.send(t, "192.0.2.1", client.ID, client.Secret, "", http.StatusOK))] = true
		requests.send(t, fmt.Sprintf("10.200.%d.%d", i>>8, i&0xff), client.ID, "wrong", "", http.StatusUnauthorized)
	}
	sending.Wait()
	if t.Failed() {
		return
	}

	suppressed := uint64(server.Metric(t, "realmkeeper_audit_suppressed_total"))
	lost := uint64(server.Metric(t, "realmkeeper_audit_lost_total"))
	sent := requests.sent.Load()
	pipe.read()
	install.Eventually(t, "the audit log to account for every request", func() error {
		if written := uint64(len(pipe.events())); written+suppressed+lost != sent {
			return fmt.Errorf("%d written, %d suppressed and %d lost events of %d", written, suppressed, lost, sent)
		}
		return nil
	})
	wrong := 0
	for _, e := range pipe.events() {
		delete(want, e.TokenID)
		if e.Reason == audit.ReasonWrongSecret {
			wrong++
		}
	}
	t.Logf("%d events: %d written, %d suppressed, %d lost", sent, len(pipe.events()), suppressed, lost)
	if len(want) > 0 || wrong != decisions || lost > 0 {
		t.Errorf("%d of %d tokens have no event, %d of %d wrong secrets have one, %d events are lost", len(want), decisions, wrong, decisions, lost)
	}
	if suppressed < senders*junk-2100 {
		t.Errorf("only %d of %d events about junk were suppressed", suppressed, senders*junk)
	}
}

// pipe is a named pipe for the audit log. Nothing reads it before read.
type pipe struct {
	path string
	file *os.File

	mu    sync.Mutex
	lines []audit.Event
}

func newPipe(t *testing.T) *pipe {
	t.Helper()
	p := &pipe{path: filepath.Join(t.TempDir(), "audit")}
	if err := syscall.Mkfifo(p.path, 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	// With O_RDWR, opening doesn't wait for the server, and reading doesn't end with it.
	if p.file, err = os.OpenFile(p.path, os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.file.Close() })
	return p
}

// read starts to read events.
func (p *pipe) read() {
	go func() {
		for lines := bufio.NewScanner(p.file); lines.Scan(); {
			var e audit.Event
			if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action == audit.ActionAudit {
				continue
			}
			p.mu.Lock()
			p.lines = append(p.lines, e)
			p.mu.Unlock()
		}
	}()
}

// events returns the events so far, except for those about the log itself.
func (p *pipe) events() []audit.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clip(p.lines)
}

// requester sends requests as a trusted proxy would.
type requester struct {
	server  *target.Server
	clients []*http.Client
	sent    atomic.Uint64
}

// send sends a token request from the source and returns the body of the response.
func (r *requester) send(t *testing.T, source, id, secret, query string, wantStatus int) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+target.HostName+target.TokenPath+"?"+query,
		strings.NewReader("grant_type=client_credentials"))
	if err != nil {
		t.Error(err)
		return nil
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("X-Forwarded-For", source)
	if id != "" {
		req.SetBasicAuth(id, secret)
	}
	response, err := r.clients[r.sent.Add(1)%uint64(len(r.clients))].Do(req)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != wantStatus {
		t.Errorf("got status %d and error %v, want status %d: %s", response.StatusCode, err, wantStatus, body)
	}
	return body
}

// newHTTPClient returns a client that connects from honestSource with HTTP/2.
func newHTTPClient(t *testing.T, server *target.Server) *http.Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(honestSource)}}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: server.Roots}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", server.Address)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// tokenID returns the "jti" of the token in a response.
func tokenID(t *testing.T, body []byte) string {
	t.Helper()
	var response struct {
		Token string `json:"access_token"`
	}
	var claims struct {
		ID string `json:"jti"`
	}
	if err := json.Unmarshal(body, &response); err != nil {
		t.Fatal(err)
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(response.Token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.ID == "" {
		t.Fatalf("the token has no jti: %v", err)
	}
	return claims.ID
}
