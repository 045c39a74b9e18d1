package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption/kmsclient"
	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/serve/buildinfo"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clusterkeys"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/usereport"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/tracing"
)

// run serves until SIGINT or SIGTERM. A second signal ends the process immediately.
func run(o options) error {
	logger := newLogger(o.debug)
	ctx, stop := httpserver.SignalContext()
	defer stop()

	client, err := newClient(o.kubeconfig, o.namespace)
	if err != nil {
		return err
	}
	memory, err := httpserver.LimitMemory()
	if err != nil {
		return err
	}
	auditLog, closeAudit, err := audit.OpenFile(o.auditLog, logger, time.Now)
	if err != nil {
		return fmt.Errorf("opening --audit-log: %w", err)
	}
	defer closeAudit()
	tracer, stopTracing, err := tracing.Start(ctx, version.Version, logger)
	if err != nil {
		return err
	}
	metrics, reg := newMetrics(), registry.New()
	uses := usereport.New(usereport.Options{
		ConfigMaps: client.ConfigMaps, Namespace: o.namespace, Server: o.name,
		Resolution: o.usageResolution, Logger: logger, Metrics: metrics, Now: time.Now,
	})
	keys, err := newKeyDecrypter(o, metrics)
	if err != nil {
		return err
	}
	recordFeed := feed.New(feed.Options{
		Client: client, Namespace: o.namespace, Server: o.name, Usage: uses, Keys: keys, MaxStaleness: o.maxStaleness,
		Registry: reg, SnapshotDir: o.snapshotDir, Logger: logger, Metrics: metrics, Now: time.Now,
	})
	auditLog.RegisterMetrics(metrics)
	clusterKeys := clusterkeys.New(clusterkeys.Options{Get: client.GetKeys, Accepted: o.acceptedIssuers, Logger: logger, Metrics: metrics, Now: time.Now})

	// The feed must outlive the public port, because a draining server must still apply changes.
	feedCtx, stopFeed := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFeed()
	server, err := httpserver.Listen(ctx, httpserver.Options{
		Handler: tokenserver.New(tokenserver.Options{
			Registry: reg, Cluster: clusterKeys, RefreshKeys: recordFeed.RequestKeys, RecordUse: uses.Record, Metrics: tokenserver.NewMetrics(metrics, reg), Logger: logger, Now: time.Now, Random: rand.Reader,
			Audit: auditLog, Tracer: tracer, TrustedProxies: o.trustedProxies, InFlight: memory.InFlight, SlowHashMemory: memory.SlowHashes,
			Confirmed: recordFeed.Confirmed, MaxStaleness: o.maxStaleness,
		}),
		Limits: tokenserver.ServerLimits(o.idleTimeout), Memory: memory, Reject: tokenserver.Reject,
		Proxies: httpserver.Proxies{ProxyProtocol: o.proxyProtocolFrom, Shared: slices.Concat(o.trustedProxies, o.passthrough)},
		Listen:  o.listen, OperationsListen: o.operationsListen, ReusePort: o.reusePort,
		CertFile: o.certFile, KeyFile: o.keyFile, DrainDelay: o.drainDelay,
		Ready:   func() error { return ready(reg, recordFeed, o.maxStaleness) },
		Metrics: metrics,
		PublicStopped: func(ctx context.Context) {
			stopTracing(ctx)
			stopFeed()
		},
		Logger: logger,
	})
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { recordFeed.Run(feedCtx) })
	running.Go(func() { clusterKeys.Run(feedCtx) })
	running.Go(func() { uses.Run(feedCtx) })
	logger.Info("Token server started", "version", version.Version, "revision", version.Revision, "name", o.name,
		"address", server.Addr().String(), "operations", server.OperationsAddr().String())
	err = server.Run(ctx)
	running.Wait()
	logger.Info("Token server stopped")
	return err
}

var (
	errNotLoaded = errors.New("the registry is not loaded")
	errStale     = errors.New("contact with the API server has been lost")
)

// ready returns why this server can't serve all realms with current records, or nil if it can.
func ready(reg *registry.Registry, records *feed.Feed, maxStaleness time.Duration) error {
	if !reg.Loaded() {
		return errNotLoaded
	}
	if err := records.KeysReady(); err != nil {
		return err
	}
	if maxStaleness == 0 {
		return nil
	}
	if stale := records.Staleness(); stale > maxStaleness {
		return fmt.Errorf("%w for %s, which exceeds --max-staleness %s", errStale, stale.Round(time.Second), maxStaleness)
	}
	return nil
}

// newKeyDecrypter returns the Encrypter that decrypts private keys with a KMS plugin, or nil without a
// plugin.
func newKeyDecrypter(o options, metrics prometheus.Registerer) (*keyencryption.Encrypter, error) {
	if o.kmsSocket == "" {
		return nil, nil //nolint:nilnil // There is no plugin.
	}
	plugin, err := kmsclient.Dial(kmsclient.Options{Socket: o.kmsSocket, Timeout: o.kmsTimeout, Metrics: kmsclient.NewMetrics(metrics)})
	if err != nil {
		return nil, err
	}
	return keyencryption.New(plugin), nil
}

// newLogger returns a logger that writes to standard error, because standard output is for the
// audit log.
func newLogger(debug bool) *slog.Logger {
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	klog.SetSlogLogger(logger)
	return logger
}

// newClient returns a client for the API server.
func newClient(kubeconfig, namespace string) (feed.Client, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return feed.Client{}, fmt.Errorf("finding the API server by --kubeconfig, KUBECONFIG or service account: %w", err)
	}
	// No limit, because each component limits its own requests, and a heartbeat must not wait for a
	// report of many uses.
	cfg.QPS = -1
	cfg.ContentType = "application/vnd.kubernetes.protobuf" // halves the CPU time for decoding many records
	client, err := feed.NewClient(cfg, namespace)
	if err != nil {
		return feed.Client{}, fmt.Errorf("connecting to the API server: %w", err)
	}
	return client, nil
}

// newMetrics returns a registry with the metrics of the Go runtime, the process, and the build.
func newMetrics() *prometheus.Registry {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildinfo.NewMetric())
	return metrics
}
