package interop_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
)

func TestMain(m *testing.M) {
	proxy := httptest.NewServer(http.HandlerFunc(tunnel)) // ends with the process
	testenv.Main(m, testenv.WithForeignIssuers(proxy.URL))
}

// tunnel is an HTTP proxy to loopback alone, which is where names below localhost are
// (RFC 6761 §6.3). It serves programs that can't be told so otherwise.
func tunnel(w http.ResponseWriter, r *http.Request) {
	host, port, err := net.SplitHostPort(r.Host)
	if r.Method != http.MethodConnect || err != nil || !strings.HasSuffix(host, ".localhost") {
		http.Error(w, "there is a way to names below localhost alone", http.StatusForbidden)
		return
	}
	var d net.Dialer
	there, err := d.DialContext(r.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer there.Close()
	w.WriteHeader(http.StatusOK)
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	var both sync.WaitGroup
	both.Go(func() { pipe(there, here) })
	both.Go(func() { pipe(here, there) })
	both.Wait()
}

// pipe copies until one side ends, and then ends the other.
func pipe(to io.WriteCloser, from io.Reader) {
	_, _ = io.Copy(to, from) // an end is an end
	to.Close()
}
