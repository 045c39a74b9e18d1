package localissuer

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/usereport"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// host is the host in all URLs. It refers to the loopback interface on every machine.
const host = "localhost"

// shutdownTimeout limits how long a shutdown waits for pending responses.
const shutdownTimeout = 5 * time.Second

// listeners contains a listener for each loopback address. All of them have the same port.
type listeners struct {
	all  []net.Listener
	port int
}

func (l *listeners) close() {
	for _, listener := range l.all {
		listener.Close()
	}
}

// listen opens the same port on both loopback addresses, because clients may try either of them
// first. It does without IPv6 if the machine does not support it.
func listen(ctx context.Context, port int) (*listeners, error) {
	l := &listeners{port: port}
	for _, address := range []string{"127.0.0.1", "::1"} {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(l.port)))
		if len(l.all) > 0 && (errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)) {
			continue
		}
		if err != nil {
			l.close()
			return nil, fmt.Errorf("listening on port %d; choose another one with --port: %w", l.port, err)
		}
		l.all = append(l.all, listener)
		if tcp, ok := listener.Addr().(*net.TCPAddr); ok {
			l.port = tcp.Port
		}
	}
	return l, nil
}

// serve starts the token server. The returned function stops it.
func (i *issuer) serve(ctx context.Context, cfg *rest.Config, l *listeners, auditLog *audit.Log, running *sync.WaitGroup) (stop func(), err error) {
	memory, err := httpserver.LimitMemory()
	if err != nil {
		return nil, err
	}
	api, err := feed.NewClient(cfg, recordsNamespace)
	if err != nil {
		return nil, err
	}
	const server = "local"
	metrics, reg := prometheus.NewRegistry(), registry.New()
	uses := usereport.New(usereport.Options{
		ConfigMaps: api.ConfigMaps, Namespace: recordsNamespace, Server: server, Resolution: time.Hour, Logger: i.logger, Metrics: metrics, Now: time.Now,
	})
	records := feed.New(feed.Options{
		Client: api, Namespace: recordsNamespace, Server: server, Usage: uses, Registry: reg, Logger: i.logger, Metrics: metrics, Now: time.Now,
	})
	running.Go(func() { records.Run(ctx) })
	running.Go(func() { uses.Run(ctx) })
	handler := tokenserver.New(tokenserver.Options{
		Registry: reg, RefreshKeys: records.RequestKeys, RecordUse: uses.Record, Metrics: tokenserver.NewMetrics(metrics, reg),
		Logger: i.logger, Audit: auditLog, Now: time.Now, Random: rand.Reader, InFlight: memory.InFlight, SlowHashMemory: memory.SlowHashes,
		Confirmed: records.Confirmed,
	})
	var serving sync.WaitGroup
	var servers []*http.Server
	for _, inner := range l.all {
		server, listener := httpserver.NewPublic(inner, httpserver.Options{
			Handler: handler, Limits: tokenserver.ServerLimits(httpserver.DefaultIdle), Memory: memory, Reject: tokenserver.Reject, Logger: i.logger,
		}, i.certificate.get)
		servers = append(servers, server)
		serving.Go(func() { _ = server.ServeTLS(listener, "", "") }) // it returns when the server is shut down
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		for _, server := range servers {
			if server.Shutdown(ctx) != nil {
				server.Close()
			}
		}
		serving.Wait()
	}, nil
}

// servingCertificate is the current serving certificate.
type servingCertificate struct {
	current atomic.Pointer[tls.Certificate]
	renewAt time.Time
}

func (c *servingCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Load(), nil
}

// renewCertificate issues a serving certificate if there is none or the renewal is due. It returns
// the time until the next renewal.
func (i *issuer) renewCertificate() (time.Duration, error) {
	now := time.Now()
	if i.certificate.current.Load() == nil || !now.Before(i.certificate.renewAt) {
		ca, err := i.objects.authority()
		if err != nil {
			return 0, err
		}
		pair, err := ca.Issue([]string{host}, pki.MaxServingLifetime, now, rand.Reader)
		if err != nil {
			return 0, err
		}
		parsed, err := tls.X509KeyPair(pair.Certificate, pair.Key)
		if err != nil {
			return 0, err
		}
		i.certificate.renewAt = pki.RenewAt(ca, pair, []string{host}, now)
		i.certificate.current.Store(&parsed)
	}
	return i.certificate.renewAt.Sub(now), nil
}
