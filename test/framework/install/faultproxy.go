package install

import (
	"context"
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

	"k8s.io/client-go/rest"
)

// Fault is what becomes of a write.
type Fault int

const (
	// NoFault lets the write be.
	NoFault Fault = iota
	// AnswerLost lets the write take effect, and cuts the connection before its answer.
	AnswerLost
	// RequestLost cuts the connection, and the write never takes effect.
	RequestLost
	// Refused answers 500, and the write never takes effect.
	Refused
)

// Faults are what goes wrong with a program's writes. Leases don't count as such: heartbeats and
// leader election write them by the clock.
type Faults struct {
	// Of says what becomes of the write of that number, counted from 1; nil for no faults.
	Of func(number int) Fault
	// Then is called after a fault, while the program waits for an answer; nil for nothing.
	Then func()
}

// FaultProxy stands between a program and the API server, counts its writes, has some of
// them fail, or any request in a storm, and has the API server's clock go wrong.
type FaultProxy struct {
	// URL is where the program finds the API server.
	URL string

	faults  Faults
	forward *httputil.ReverseProxy
	server  *httptest.Server
	writes  atomic.Int64
	ahead   atomic.Int64 // how far the API server's clock is ahead, as time.Duration
	storm   storm

	mu     sync.Mutex
	struck []string
}

// SetClock makes the API server's answers be of a time that is ahead of the true one by
// that much.
func (p *FaultProxy) SetClock(ahead time.Duration) { p.ahead.Store(int64(ahead)) }

// StartFaultProxy starts a proxy with these faults.
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
	p := &FaultProxy{faults: faults}
	p.forward = &httputil.ReverseProxy{
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Date", time.Now().Add(time.Duration(p.ahead.Load())).UTC().Format(http.TimeFormat))
			return nil
		},
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0) // a killed program leaves broken handshakes
	ctx, cancel := context.WithCancel(context.Background())
	p.server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	p.server.StartTLS()
	t.Cleanup(func() {
		// Close waits for active requests, and programs that still run open their watches again.
		// With the base context canceled, none of these requests lasts.
		cancel()
		p.server.CloseClientConnections()
		p.server.Close()
	})
	p.URL = p.server.URL
	return p
}

// ServeHTTP passes a request on, or has it fail.
func (p *FaultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := NoFault
	if isWrite(r) {
		if number := int(p.writes.Add(1)); p.faults.Of != nil {
			fault = p.faults.Of(number)
		}
	}
	if fault == NoFault {
		p.storm.serve(w, r, p.forward)
		return
	}
	if fault == AnswerLost {
		p.forward.ServeHTTP(httptest.NewRecorder(), r)
	}
	p.mu.Lock()
	p.struck = append(p.struck, r.Method+" "+r.URL.Path)
	p.mu.Unlock()
	if p.faults.Then != nil {
		p.faults.Then()
	}
	if fault == Refused {
		refuse(w, http.StatusInternalServerError)
		return
	}
	panic(http.ErrAbortHandler) // cuts the connection without an answer
}

// Writes returns how many writes have come by.
func (p *FaultProxy) Writes() int { return int(p.writes.Load()) }

// Struck returns the writes that failed, as method and path.
func (p *FaultProxy) Struck() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.struck...)
}

func isWrite(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !strings.Contains(r.URL.Path, "/leases") && !strings.Contains(r.URL.Path, "/events")
}
