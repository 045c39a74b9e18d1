package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/clock"
	"github.com/realmkeeper/realmkeeper/internal/clusterkeys"
	"github.com/realmkeeper/realmkeeper/internal/config"
	"github.com/realmkeeper/realmkeeper/internal/registry"
	"github.com/realmkeeper/realmkeeper/internal/registryfeed"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tracing"
	"github.com/realmkeeper/realmkeeper/internal/version"
)

const (
	// shutdownTimeout bounds the wait for requests in flight.
	shutdownTimeout = 10 * time.Second
	// operationsTimeout bounds reading and writing at the operations port.
	operationsTimeout = 10 * time.Second
	// auditTimeout bounds the wait for a slow sink at the end.
	auditTimeout = 5 * time.Second
)

// run serves until SIGINT or SIGTERM; a second one ends it at once.
func run(o options) error {
	logger := newLogger(o.debug)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	// The API server's time keeps tokens from coming from the future when this machine's steps.
	now := clock.New(clock.ThisMachine())
	client, err := newClient(o.kubeconfig, now)
	if err != nil {
		return err
	}
	certificate, err := certwatcher.New(o.certFile, o.keyFile)
	if err != nil {
		return fmt.Errorf("reading the serving certificate at --tls-cert-file and --tls-key-file: %w", err)
	}
	auditLog, closeAudit, err := openAudit(o.auditLog, logger, now.Now)
	if err != nil {
		return err
	}
	defer closeAudit()
	tracer, stopTracing, err := tracing.Start(ctx, config.TokenServiceName, version.Version, logger)
	if err != nil {
		return err
	}
	metrics := newMetrics()
	reg := registry.New()
	feed := registryfeed.New(registryfeed.Options{
		Client: client, Namespace: o.namespace, Server: o.name,
		Registry: reg, SnapshotDir: o.snapshotDir, Logger: logger, Metrics: metrics, Now: now.Now,
	})
	tokenserver.RegisterAudit(metrics, auditLog)
	clusterKeys := clusterkeys.New(clusterkeys.Options{
		Get: func(ctx context.Context, path string) ([]byte, error) {
			return client.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json, application/jwk-set+json").DoRaw(ctx)
		},
		Logger: logger, Metrics: metrics, Now: time.Now,
	})
	var draining atomic.Bool
	public := tokenserver.NewHTTPServer(tokenserver.EndingConnections(tokenserver.New(tokenserver.Options{
		Registry: reg, Cluster: clusterKeys, Metrics: tokenserver.NewMetrics(metrics, reg), Logger: logger, Now: now.Now, Random: rand.Reader,
		Audit: auditLog, Tracer: tracer, TrustedProxies: o.trustedProxies,
	}), draining.Load), certificate.GetCertificate, logger)
	operations := &http.Server{
		Handler:           tokenserver.NewOperations(func() bool { return reg.Loaded() && !draining.Load() }, metrics),
		ReadHeaderTimeout: operationsTimeout,
		ReadTimeout:       operationsTimeout,
		WriteTimeout:      operationsTimeout,
	}
	publicListener, operationsListener, err := listenAtBoth(ctx, o)
	if err != nil {
		return err
	}

	// The feed outlives the public port: a server that drains still takes changes.
	feedCtx, stopFeed := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFeed()
	failed := make(chan error, 3)
	var running sync.WaitGroup
	running.Go(func() { feed.Run(feedCtx) })
	running.Go(func() { clusterKeys.Run(feedCtx) })
	running.Go(func() { failed <- wrap("watching the serving certificate", certificate.Start(feedCtx)) })
	running.Go(func() { failed <- wrap("serving HTTPS", public.ServeTLS(publicListener, "", "")) })
	running.Go(func() { failed <- wrap("serving operations", operations.Serve(operationsListener)) })
	logger.Info("Token server listens", "version", version.Version, "revision", version.Revision, "name", o.name,
		"address", publicListener.Addr().String(), "operations", operationsListener.Addr().String())

	select {
	case err = <-failed:
	case <-ctx.Done():
		stop()
		logger.Info("Token server drains", "delay", o.drainDelay.String())
		draining.Store(true)
		time.Sleep(o.drainDelay)
	}
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err = errors.Join(err, public.Shutdown(shutdownCtx))
	stopTracing(shutdownCtx)
	stopFeed()
	err = errors.Join(err, operations.Shutdown(shutdownCtx))
	running.Wait()
	logger.Info("Token server has stopped")
	return err
}

// openAudit opens the audit log; nil where none is wanted.
func openAudit(path string, logger *slog.Logger, now func() time.Time) (log *audit.Log, closeLog func(), err error) {
	out := os.Stdout
	switch path {
	case "":
		return nil, func() {}, nil
	case "-":
	default:
		if out, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			return nil, nil, fmt.Errorf("opening --audit-log: %w", err)
		}
	}
	log = audit.Open(out, logger, now)
	return log, func() {
		ctx, cancel := context.WithTimeout(context.Background(), auditTimeout)
		defer cancel()
		if err := log.Close(ctx); err != nil {
			logger.Error("Audit lines are lost", "error", err)
		}
	}, nil
}

// wrap says what failed; that a server was closed is no failure.
func wrap(doing string, err error) error {
	if err == nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// newLogger logs to standard error: standard output is the audit's.
func newLogger(debug bool) *slog.Logger {
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	klog.SetSlogLogger(logger)
	ctrllog.SetLogger(logr.FromSlogHandler(logger.Handler()))
	return logger
}

// newClient connects to the API server, whose answers set the clock.
func newClient(kubeconfig string, now *clock.Clock) (kubernetes.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("finding the API server by --kubeconfig, KUBECONFIG or service account: %w", err)
	}
	cfg.Wrap(now.Transport)
	cfg.ContentType = "application/vnd.kubernetes.protobuf" // half the work of JSON for many records
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return client, nil
}

// newMetrics returns a registry that has what there is to know of every program.
func newMetrics() *prometheus.Registry {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return metrics
}

// listenAtBoth opens the public port and that of operations.
func listenAtBoth(ctx context.Context, o options) (public, operations net.Listener, err error) {
	if public, err = listen(ctx, o.listen, o.reusePort); err != nil {
		return nil, nil, fmt.Errorf("listening at --listen: %w", err)
	}
	if operations, err = listen(ctx, o.operationsListen, false); err != nil {
		return nil, nil, fmt.Errorf("listening at --operations-listen: %w", err)
	}
	return public, operations, nil
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
