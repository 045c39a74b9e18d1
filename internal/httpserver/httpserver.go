// Package httpserver runs the two HTTP servers of a process, public and operations, from listening
// to shutdown.
package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Limits bounds the requests and connections of a server.
type Limits struct {
	// ReadHeader, Read and Write bound one request. Idle bounds the time between two requests on a
	// connection.
	ReadHeader, Read, Write, Idle time.Duration
	// HeaderBytes bounds the request line and the headers.
	HeaderBytes int
}

// Options configures a Server. CertFile, KeyFile, DrainDelay, Ready, Metrics and PublicStopped are
// optional.
type Options struct {
	// Handler serves the public port within Limits.
	Handler http.Handler
	Limits  Limits
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
	// Metrics are served on the operations port.
	Metrics prometheus.Gatherer
	// PublicStopped is called after the public port has sent its last response, while the
	// operations port still serves. Its context expires when the shutdown timeout does.
	PublicStopped func(context.Context)
	Logger        *slog.Logger
}

// Server is the public and the operations server of a process.
type Server struct {
	public, operations                 *http.Server
	publicListener, operationsListener net.Listener
	certificate                        *certwatcher.CertWatcher // nil: plain HTTP
	drainDelay                         time.Duration
	draining                           atomic.Bool
	publicStopped                      func(context.Context)
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
		var err error
		if s.certificate, err = certwatcher.New(o.CertFile, o.KeyFile); err != nil {
			return nil, fmt.Errorf("reading the serving certificate at --tls-cert-file and --tls-key-file: %w", err)
		}
		getCertificate = s.certificate.GetCertificate
	}
	var err error
	if s.publicListener, err = listen(ctx, o.Listen, o.ReusePort); err != nil {
		return nil, fmt.Errorf("listening at --listen: %w", err)
	}
	if s.operationsListener, err = listen(ctx, o.OperationsListen, false); err != nil {
		s.publicListener.Close()
		return nil, fmt.Errorf("listening at --operations-listen: %w", err)
	}
	s.public = New(s.closeWhileDraining(o.Handler), o.Limits, getCertificate, o.Logger)
	s.operations = New(newOperations(s.ready(o.Ready), o.Metrics), operationsLimits, nil, o.Logger)
	return s, nil
}

// Addr returns the address of the public port.
func (s *Server) Addr() net.Addr { return s.publicListener.Addr() }

// OperationsAddr returns the address of the operations port.
func (s *Server) OperationsAddr() net.Addr { return s.operationsListener.Addr() }

// New returns an HTTP/1.1 and HTTP/2 server. For TLS it accepts version 1.2 and later, with the
// certificate that getCertificate returns at each handshake. If getCertificate is nil, the server
// uses plain HTTP.
func New(handler http.Handler, limits Limits, getCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: limits.ReadHeader,
		ReadTimeout:       limits.Read,
		WriteTimeout:      limits.Write,
		IdleTimeout:       limits.Idle,
		MaxHeaderBytes:    limits.HeaderBytes,
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: getCertificate,
			NextProtos:     []string{"h2", "http/1.1"},
		},
		// Port scanners and probes cause failed handshakes, which are not worth logging by default.
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

func listen(ctx context.Context, address string, reusePort bool) (net.Listener, error) {
	var lc net.ListenConfig
	if reusePort {
		lc.Control = func(_, _ string, c syscall.RawConn) error {
			var optErr error
			err := c.Control(func(fd uintptr) {
				optErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
			})
			return errors.Join(err, optErr)
		}
	}
	return lc.Listen(ctx, "tcp", address)
}
