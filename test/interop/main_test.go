package interop_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	env "github.com/realmkeeper/realmkeeper/test/framework/env"
)

// tunnelURL is the URL of tunnel.
var tunnelURL string

func TestMain(m *testing.M) {
	proxy := httptest.NewServer(http.HandlerFunc(tunnel)) // runs until the process ends
	tunnelURL = proxy.URL
	env.Main(m, env.WithExternalIssuers(tunnelURL))
}

// tunnel is an HTTP proxy that connects only to names under localhost, which always refer to the
// loopback interface (RFC 6761 §6.3). Programs use it if their resolver doesn't know these names.
func tunnel(w http.ResponseWriter, r *http.Request) {
	host, port, err := net.SplitHostPort(r.Host)
	if r.Method != http.MethodConnect || err != nil || !strings.HasSuffix(host, ".localhost") {
		http.Error(w, "only names under localhost are allowed", http.StatusForbidden)
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
	here, received, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	var both sync.WaitGroup
	both.Go(func() { pipe(there, received) }) // The server may already have read the start.
	both.Go(func() { pipe(here, there) })
	both.Wait()
}

// pipe copies data until one side closes the connection or fails, and then closes the destination.
func pipe(to io.WriteCloser, from io.Reader) {
	_, _ = io.Copy(to, from)
	to.Close()
}
