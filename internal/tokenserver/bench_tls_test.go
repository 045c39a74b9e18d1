package tokenserver_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// BenchmarkTLS measures tokens per second over HTTPS, with persistent connections and with one
// connection for each token. The baseline is a server that only handles HTTPS and signs.
func BenchmarkTLS(b *testing.B) {
	for name, once := range map[string]bool{"keep-alive": false, "connection-per-token": true} {
		b.Run(name, func(b *testing.B) {
			p := benchPopulation(b, signingkey.ES256)
			first := responseTo(b, p.handler, p.requests[0])
			sign := rawSignature(b, signingkey.ES256, signingInput(first.Body.String()))
			product := serve(b, overTLS(productServer(p.handler)), p.requests)
			plain := serve(b, overTLS(plainServer(fixedResponse(first))), p.requests)
			for _, s := range []*loadedServer{product, plain} {
				for _, c := range s.connections {
					c.secure(b, s.address, once)
				}
			}
			compare(b, product.rate, plain.rate, "sign", sign)
		})
	}
}

// overTLS returns the server with TLS and the certificate of the tests.
func overTLS(inner newServer) newServer {
	return func(listener net.Listener) (*http.Server, net.Listener) {
		server, listener := inner(listener)
		config := server.TLSConfig
		if config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		config = config.Clone()
		config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, _ := certificate()
			return pair, nil
		}
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
