// Package httpserver runs the two HTTP servers of a process, public and operations, from listening
// to shutdown.
package httpserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver/connections"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver/requests"
)

// Limits bounds a single request to a server.
type Limits struct {
	// Header, Body, and Write bound the time in which the headers and the body of a request arrive
	// and the response is sent. Idle bounds the time between two requests on a connection.
	Header, Body, Write, Idle time.Duration
	// HeaderBytes bounds the request line and the headers. Requests up to twice as large get the response
	// of Reject; for others, net/http closes the connection. BodyBytes is the largest body that the
	// handler accepts.
	HeaderBytes int
	BodyBytes   int64
}

// DefaultIdle is the time for which idle connections stay open by default. It is longer than in usual proxies, which
// use a connection for 60 seconds: one that the server closes at the same time as the proxy sends a request fails.
const DefaultIdle = 75 * time.Second

// ValidateIdle checks a time for which idle connections stay open. The error is for the user who set it.
func ValidateIdle(idle time.Duration) error {
	if idle < 5*time.Second || idle > time.Hour {
		return fmt.Errorf("must be between 5s and 1h, not %s", idle)
	}
	return nil
}

// Proxies lists the networks of trusted proxies and load balancers in front of the public port.
type Proxies struct {
	// ProxyProtocol are networks whose connections begin with a header of the PROXY protocol.
	ProxyProtocol []netip.Prefix
	// Shared are networks whose connections come from many clients, so the limit for each source
	// does not apply: proxies that send X-Forwarded-For, and proxies that hide the source.
	Shared []netip.Prefix
}

// Options configures a Server. CertFile, KeyFile, DrainDelay, Ready, Metrics and PublicStopped are
// optional.
type Options struct {
	// Handler serves the public port within Limits and Memory.
	Handler http.Handler
	Limits  Limits
	Memory  Memory
	Proxies Proxies
	// Reject writes the response to a request that a limit rejects, with status 408, 431, or 503.
	Reject func(w http.ResponseWriter, status int)
	// Listen and OperationsListen are the addresses of the two ports.
	Listen, OperationsListen string
	// ReusePort shares the public port with other processes on this host (SO_REUSEPORT).
	ReusePort bool
	// CertFile and KeyFile are the PEM files of the serving certificate, which is reloaded when
	// they change. If they are empty, the public port serves plain HTTP.
	CertFile, KeyFile string
	// DrainDelay is how long the public port keeps accepting connections after Run's context is
	// done.
	DrainDelay time.Duration
	// Ready returns why the process cannot serve requests yet, or nil.
	Ready func() error
	// Metrics are served on the operations port. Those of the public port are added.
	Metrics *prometheus.Registry
	// PublicStopped is called after the public port has sent its last response, while the
	// operations port still serves. Its context expires when the shutdown timeout does.
	PublicStopped func(context.Context)
	Logger        *slog.Logger
}

// Server is the public and the operations server of a process.
type Server struct {
	public, operations                 *http.Server
	publicListener, operationsListener net.Listener
	certificate                        *servingCertificate // nil: plain HTTP
	drainDelay                         time.Duration
	draining                           atomic.Bool
	publicStopped                      func(context.Context)
	relieve                            func() // closes connections because memory is short
	logger                             *slog.Logger
}

// Listen reads the serving certificate and opens both ports. Requests wait until Run.
//
// Errors name the flag to correct: --tls-cert-file and --tls-key-file, --listen, or
// --operations-listen.
func Listen(ctx context.Context, o Options) (*Server, error) {
	s := &Server{drainDelay: o.DrainDelay, publicStopped: o.PublicStopped, logger: o.Logger}
	var getCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	if o.CertFile != "" {
		s.certificate = &servingCertificate{certFile: o.CertFile, keyFile: o.KeyFile, logger: o.Logger}
		if err := s.certificate.load(); err != nil {
			return nil, fmt.Errorf("reading the serving certificate at --tls-cert-file and --tls-key-file: %w", err)
		}
		getCertificate = s.certificate.get
	}
	var err error
	if s.publicListener, err = listen(ctx, o.Listen, o.ReusePort); err != nil {
		return nil, fmt.Errorf("listening at --listen: %w", err)
	}
	if s.operationsListener, err = listen(ctx, o.OperationsListen, false); err != nil {
		s.publicListener.Close()
		return nil, fmt.Errorf("listening at --operations-listen: %w", err)
	}
	// A request passes the limits of its connection, net/http, closeWhileNotReady, the limits of requests,
	// which receive its body, and then the handler.
	public, listener := NewPublic(s.publicListener, o, getCertificate)
	s.public, s.publicListener, s.relieve = public, listener, listener.CloseQuarter
	ready := s.ready(o.Ready)
	s.public.Handler = closeWhileNotReady(ready, s.public.Handler)
	s.operationsListener = connections.New(s.operationsListener, connections.Options{Total: operationsConnections, PerSource: operationsConnections / 2, Idle: operationsLimits.Idle})
	s.operations = newServer(newOperations(ready, o.Metrics), operationsLimits, nil, o.Logger)
	o.Logger.Info("Derived limits from the memory limit", "memory", o.Memory.Limit, "connections", o.Memory.Connections,
		"connectionsPerSource", o.Memory.PerSource, "requestsInFlight", o.Memory.InFlight)
	return s, nil
}

// Addr returns the address of the public port.
func (s *Server) Addr() net.Addr { return s.publicListener.Addr() }

// OperationsAddr returns the address of the operations port.
func (s *Server) OperationsAddr() net.Addr { return s.operationsListener.Addr() }

// NewPublic returns a server for the public port, and its listener around the given one. It uses
// Handler, Limits, Memory, Proxies, Reject, Metrics, and Logger of the options. Listen calls it; others use
// it for a server without an operations port, which doesn't close connections while it isn't ready.
//
// With getCertificate, the server is for ServeTLS and calls it at each handshake. Without, it is for
// plain HTTP.
func NewPublic(inner net.Listener, o Options, getCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) (*http.Server, *connections.Listener) {
	shed := newShed()
	listener := connections.New(inner, connections.Options{
		Total: o.Memory.Connections, PerSource: o.Memory.PerSource, TLS: getCertificate != nil,
		Idle:          o.Limits.Idle,
		Unproductive:  unproductiveRequests * (2*int64(o.Limits.HeaderBytes) + o.Limits.BodyBytes),
		ProxyProtocol: o.Proxies.ProxyProtocol, Shared: o.Proxies.Shared, HeaderTimeout: o.Limits.Header,
		Closed: shed.connection,
	})
	limiter := requests.New(requests.Options{
		Handler: o.Handler, InFlight: o.Memory.InFlight, Streams: maxStreams, Open: openStreams * o.Memory.Connections, OpenPerSource: openStreams * o.Memory.PerSource, HeaderBytes: o.Limits.HeaderBytes, BodyBytes: o.Limits.BodyBytes, BodyTimeout: o.Limits.Body,
		Reject: o.Reject, Rejected: shed.request,
	})
	if o.Metrics != nil {
		shed.register(o.Metrics, listener, limiter, o.Memory)
	}
	return newServer(limiter, o.Limits, getCertificate, o.Logger), listener
}

// newServer returns an HTTP/1.1 and HTTP/2 server. For TLS it accepts version 1.2 and later, with the
// certificate that getCertificate returns at each handshake. If getCertificate is nil, the server
// uses plain HTTP. The listener enforces limits.Idle.
func newServer(handler http.Handler, limits Limits, getCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: limits.Header,
		// It would read the body of OPTIONS * without the limits.
		DisableGeneralOptionsHandler: true,
		WriteTimeout:                 limits.Write,
		MaxHeaderBytes:               2 * limits.HeaderBytes,
		ConnContext:                  connections.WithConn,
		TLSConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			GetCertificate:     getCertificate,
			GetConfigForClient: connections.ClientHello,
			NextProtos:         []string{"h2", "http/1.1"},
		},
		// The defaults allow a megabyte for each frame, each connection, and each of 250 streams.
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReadFrameSize:              16 << 10,
			MaxReceiveBufferPerConnection: 64 << 10,
			MaxReceiveBufferPerStream:     64 << 10, // clients may send as much before they learn the limit
			WriteByteTimeout:              writeByteTimeout,
		},
		// Port scanners and probes cause failed handshakes, which are not worth logging by default.
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

const (
	// maxStreams is the maximum number of concurrent requests on an HTTP/2 connection. RFC 9113 §6.5.2 recommends
	// at least 100, because some clients fail instead of waiting or opening another connection.
	maxStreams = 100
	// openStreams is the number of requests for each possible connection whose responses have not been sent. Each one
	// takes about 16 KiB, and with a response from a file 48.
	openStreams = 16
	// unproductiveRequests is the number of requests of the largest size that a client may send
	// without completing one of them.
	unproductiveRequests = 4
	// writeByteTimeout is the time in which an HTTP/2 client must read something of its responses.
	writeByteTimeout = 5 * time.Second
)

func listen(ctx context.Context, address string, reusePort bool) (net.Listener, error) {
	var lc net.ListenConfig
	if reusePort {
		lc.Control = setReusePort
	}
	return lc.Listen(ctx, "tcp", address)
}
