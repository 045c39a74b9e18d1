package install

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
)

// Fault defines how the proxy handles a write.
type Fault int

const (
	// NoFault forwards the write.
	NoFault Fault = iota
	// ResponseLost forwards the write and closes the connection before the response.
	ResponseLost
	// RequestLost closes the connection. The write never takes effect.
	RequestLost
)

// Faults defines which writes of a program fail. Writes of Leases and of the beacon are not counted, because
// they are repeated periodically. Writes of Events are not counted either.
type Faults struct {
	// Of returns the fault for a write. If nil, no write fails.
	Of func(write Write) Fault
	// Then, if set, is called after a write fails, before the program receives a response.
	Then func(write Write)
}

// Write is a write that a program makes.
type Write struct {
	// Number is its position among all writes of the program, starting at 1.
	Number int
	// Path is the URL path that it is sent to, and ToPath its position among the writes sent there.
	Path   string
	ToPath int
}

// FaultProxy is a proxy between a program and the API server. It counts the program's writes and
// makes some of them fail. It can also deny all requests, change the time in responses, and report another
// version of Kubernetes.
type FaultProxy struct {
	// URL is the address that programs use in place of the API server's address.
	URL string

	faults  Faults
	forward *httputil.ReverseProxy
	server  *httptest.Server
	writes  atomic.Int64
	ahead   atomic.Int64 // offset of the API server's clock, a time.Duration
	version atomic.Pointer[apiversion.Info]
	denies  atomic.Bool
	// endless means that the API server never ends a streamed list.
	endless atomic.Bool
	frozen  frozenWatches

	mu     sync.Mutex
	failed []string
	toPath map[string]int // number of writes by URL path
	held   []*HeldWrites
}

// SetClock sets how far the time in the API server's responses is ahead of the machine's clock.
func (p *FaultProxy) SetClock(ahead time.Duration) { p.ahead.Store(int64(ahead)) }

// SetVersion sets the version of Kubernetes that the API server reports.
func (p *FaultProxy) SetVersion(gitVersion string) {
	p.version.Store(&apiversion.Info{GitVersion: gitVersion})
}

// Deny denies all new requests, like an API server that hasn't loaded the roles yet, until the returned function is
// called.
func (p *FaultProxy) Deny() (allow func()) {
	p.denies.Store(true)
	return func() { p.denies.Store(false) }
}

// DropBookmarks removes allowWatchBookmarks from requests, like a proxy that does not know it. The API server then
// accepts a streamed list, and never ends it.
func (p *FaultProxy) DropBookmarks() { p.endless.Store(true) }

// StartFaultProxy starts a proxy that injects the given faults.
func (i *Installation) StartFaultProxy(t testing.TB, faults Faults) *FaultProxy {
	t.Helper()
	target, err := url.Parse(i.Env.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(i.Env.Config))
	if err != nil {
		t.Fatal(err)
	}
	p := &FaultProxy{faults: faults, toPath: map[string]int{}}
	p.forward = &httputil.ReverseProxy{
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Date", time.Now().Add(time.Duration(p.ahead.Load())).UTC().Format(http.TimeFormat))
			return nil
		},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if p.endless.Load() {
				query := r.Out.URL.Query()
				query.Del("allowWatchBookmarks")
				r.Out.URL.RawQuery = query.Encode()
			}
		},
		Transport:     transport,
		FlushInterval: -1, // required for watches
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0) // killed programs leave incomplete handshakes
	ctx, cancel := context.WithCancel(context.Background())
	p.server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	p.server.StartTLS()
	t.Cleanup(func() {
		// Close waits for active requests, and running programs keep reopening their watches. Canceling
		// the base context ends these requests.
		cancel()
		p.server.CloseClientConnections()
		p.server.Close()
	})
	p.URL = p.server.URL
	return p
}

// ServeHTTP forwards a request or makes it fail.
func (p *FaultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.denies.Load() {
		denial := apierrors.NewForbidden(schema.GroupResource{}, r.URL.Path, errors.New("no RBAC policy matched")).Status()
		denial.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(denial) // a closed connection fails the request
		return
	}
	if version := p.version.Load(); version != nil && r.URL.Path == "/version" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(version) // a closed connection fails the request
		return
	}
	if p.hold(w, r) {
		return
	}
	fault, write := NoFault, Write{}
	if isWrite(r) {
		if write = p.count(r); p.faults.Of != nil {
			fault = p.faults.Of(write)
		}
	}
	if fault == NoFault {
		p.forward.ServeHTTP(p.frozen.wrap(w, r), r)
		return
	}
	if fault == ResponseLost {
		p.forward.ServeHTTP(httptest.NewRecorder(), r)
	}
	p.mu.Lock()
	p.failed = append(p.failed, r.Method+" "+r.URL.Path)
	p.mu.Unlock()
	if p.faults.Then != nil {
		p.faults.Then(write)
	}
	panic(http.ErrAbortHandler) // closes the connection without a response
}

// count counts a write.
func (p *FaultProxy) count(r *http.Request) Write {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.toPath[r.URL.Path]++
	return Write{Number: int(p.writes.Add(1)), Path: r.URL.Path, ToPath: p.toPath[r.URL.Path]}
}

// Writes returns the number of writes so far.
func (p *FaultProxy) Writes() int { return int(p.writes.Load()) }

// Failed returns the method and path of each write that failed.
func (p *FaultProxy) Failed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.failed...)
}

func isWrite(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	if r.URL.Query().Has("dryRun") {
		return false
	}
	return !strings.Contains(r.URL.Path, "/leases") && !strings.Contains(r.URL.Path, "/events") && !strings.HasSuffix(r.URL.Path, "/secrets/"+beacon.Name)
}
