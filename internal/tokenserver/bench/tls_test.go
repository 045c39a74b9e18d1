package bench_test

import (
	"crypto/rand"
	"crypto/tls"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// BenchmarkTLS measures responses per second over HTTPS, with persistent connections and with one
// connection for each request. The baseline is a server that only handles HTTPS and the same
// signatures.
func BenchmarkTLS(b *testing.B) {
	for prefix, setup := range map[string]func(*testing.B) workload{"": secrets, "assertion-": assertions, "introspection-": introspections} {
		for name, once := range map[string]bool{"keep-alive": false, "connection-per-token": true} {
			b.Run(prefix+name, func(b *testing.B) {
				w := setup(b)
				response := fixedResponse(responseTo(b, w.server.handler, w.load.next()))
				product := serveTLS(b, productServer(w.server.handler), w.load, once)
				plain := serveTLS(b, plainServer(response), w.load, once)
				compare(b, product.rate, plain.rate, w.name, w.compute)
			})
		}
	}
}

// workload is a token server, a load for it, and the signatures that each response needs.
type workload struct {
	server  *population
	load    load
	name    string // of compute
	compute func() error
}

func secrets(b *testing.B) workload {
	b.Helper()
	p := benchPopulation(b, signingkey.ES256)
	input := signingInput(responseTo(b, p.handler, p.requests[0]).Body.String())
	return workload{p, anyOf(p.requests), "sign", rawSignature(b, signingkey.ES256, input)}
}

func introspections(b *testing.B) workload {
	b.Helper()
	p := benchPopulation(b, signingkey.ES256)
	requests, input := tokenChecks(b, p, introspectionRequest)
	return workload{p, anyOf(requests), "verify", rawVerification(b, signingkey.ES256, input)}
}

// serveTLS is like serve, over TLS. If once is set, each request has a connection of its own.
func serveTLS(b *testing.B, inner newServer, load load, once bool) *loadedServer {
	b.Helper()
	s := serve(b, overTLS(b, inner), load)
	for _, c := range s.connections {
		c.secure(b, s.address, once)
	}
	return s
}

// overTLS returns the server with TLS and a serving certificate of a managed CA.
func overTLS(b *testing.B, inner newServer) newServer {
	b.Helper()
	ca := testkit.Value(pki.NewCA(nil, 24*time.Hour, time.Now(), rand.Reader))(b)
	serving := testkit.Value(ca.Issue([]string{host}, 24*time.Hour, time.Now(), rand.Reader))(b)
	pair := testkit.Value(tls.X509KeyPair(serving.Certificate, serving.Key))(b)
	return func(listener net.Listener) (*http.Server, net.Listener) {
		server, listener := inner(listener)
		config := server.TLSConfig
		if config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		config = config.Clone()
		config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
		return server, tls.NewListener(listener, config)
	}
}

// secure makes a connection use TLS. If once is set, it opens a new connection for each request.
func (c *connection) secure(b *testing.B, address string, once bool) {
	b.Helper()
	plain := c.conn
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}
	if !once {
		c.conn = tls.Client(plain, config)
		return
	}
	plain.Close()
	c.connect = func() (net.Conn, error) { return tls.Dial("tcp", address, config) }
}
