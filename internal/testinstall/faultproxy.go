package testinstall

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// FaultProxy stands between a program and the API server, counts its writes, calls a
// function after one of them, and has the API server's clock go wrong.
type FaultProxy struct {
	// URL is where the program finds the API server.
	URL string

	writes atomic.Int64
	ahead  atomic.Int64 // how far the API server's clock is ahead, as time.Duration
}

// SetClock makes the API server's answers be of a time that is ahead of the true one by
// that much.
func (p *FaultProxy) SetClock(ahead time.Duration) { p.ahead.Store(int64(ahead)) }

// StartFaultProxy starts a proxy that calls fault when the program's write of that number,
// counted from 1, has taken effect and its answer is on its way, which then never arrives; 0 for none.
// Leases don't count: heartbeats and leader election write them by the clock.
func (i *Installation) StartFaultProxy(t testing.TB, number int, fault func()) *FaultProxy {
	t.Helper()
	target, err := url.Parse(i.Env.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(i.Env.Config))
	if err != nil {
		t.Fatal(err)
	}
	p := &FaultProxy{}
	forward := &httputil.ReverseProxy{
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Date", time.Now().Add(time.Duration(p.ahead.Load())).UTC().Format(http.TimeFormat))
			return nil
		},
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isWrite(r) && int(p.writes.Add(1)) == number {
			forward.ServeHTTP(httptest.NewRecorder(), r)
			fault()
			panic(http.ErrAbortHandler) // cuts the connection without an answer
		}
		forward.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a killed program leaves broken handshakes
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	p.URL = server.URL
	return p
}

// Writes returns how many writes have come by.
func (p *FaultProxy) Writes() int { return int(p.writes.Load()) }

func isWrite(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !strings.Contains(r.URL.Path, "/leases") && !strings.Contains(r.URL.Path, "/events")
}
