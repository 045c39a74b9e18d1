package main

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	_ "golang.org/x/crypto/x509roots/fallback" // The image contains no certificate authorities.
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/serve/buildinfo"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver"
)

// run serves requests until it receives SIGINT or SIGTERM. A second signal ends the process
// immediately.
func run(o options) error {
	logger := newLogger(o.debug)
	ctx, stop := httpserver.SignalContext()
	defer stop()

	memory, err := httpserver.LimitMemory()
	if err != nil {
		return err
	}
	auditLog, closeAudit, err := audit.OpenFile("-", logger, time.Now)
	if err != nil {
		return err
	}
	defer closeAudit()
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildinfo.NewMetric())
	auditLog.RegisterMetrics(metrics)
	handler, err := newHandler(o, logger, auditLog, metrics)
	if err != nil {
		return err
	}
	server, err := httpserver.Listen(ctx, httpserver.Options{
		Handler: handler, Limits: portal.ServerLimits(), Memory: memory, Reject: portal.Reject,
		Proxies: httpserver.Proxies{ProxyProtocol: o.proxyProtocolFrom, Shared: slices.Concat(o.trustedProxies, o.passthrough)},
		Listen:  o.listen, OperationsListen: o.operationsListen, CertFile: o.certFile, KeyFile: o.keyFile,
		// Ready is unset, because the portal can report an error to users even if the API server is
		// unavailable.
		Metrics: metrics,
		Logger:  logger,
	})
	if err != nil {
		return err
	}
	logger.Info("Portal started", "version", version.Version, "revision", version.Revision,
		"address", server.Addr().String(), "operations", server.OperationsAddr().String(), "apiServer", o.apiServer)
	err = server.Run(ctx)
	logger.Info("Portal stopped")
	return err
}

func newHandler(o options, logger *slog.Logger, auditLog *audit.Log, metrics prometheus.Registerer) (http.Handler, error) {
	ca, err := readIfNamed("api-server-ca-file", o.apiServerCAFile)
	if err != nil {
		return nil, err
	}
	cluster, err := access.NewCluster(o.apiServer, ca)
	if err != nil {
		return nil, err
	}
	key, err := readIfNamed("session-key-file", o.sessionKeyFile)
	if err != nil {
		return nil, err
	}
	sessions, err := access.NewSessions(bytes.TrimSpace(key), o.idleTimeout, time.Now)
	switch {
	case errors.Is(err, access.ErrIdleTimeout):
		return nil, fmt.Errorf("using --idle-timeout: %w", err)
	case err != nil:
		return nil, fmt.Errorf("using --session-key-file: %w", err)
	}
	provider, err := newProvider(o, sessions)
	if err != nil {
		return nil, err
	}
	return portal.New(portal.Options{
		Cluster: cluster, Sessions: sessions, Provider: provider, InitialAdmin: o.initialAdmin, TrustedProxies: o.trustedProxies,
		StaleAfter: o.staleAfter,
		Logger:     logger, Audit: auditLog, Metrics: metrics, Now: time.Now, Random: rand.Reader,
	}), nil
}

// newProvider returns the identity provider, or nil if none is configured.
func newProvider(o options, sessions *access.Sessions) (*access.Provider, error) {
	if o.oidc.issuerURL == "" {
		return nil, nil //nolint:nilnil // No provider is a valid configuration.
	}
	secret, err := readIfNamed("oidc-client-secret-file", o.oidc.clientSecretFile)
	if err != nil {
		return nil, err
	}
	ca, err := readIfNamed("oidc-ca-file", o.oidc.caFile)
	if err != nil {
		return nil, err
	}
	var roots *x509.CertPool
	if ca != nil {
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("%w: --oidc-ca-file has no certificate", errUsage)
		}
	}
	return access.NewProvider(access.ProviderOptions{
		Issuer: o.oidc.issuerURL, ClientID: o.oidc.clientID, ClientSecret: string(bytes.TrimSpace(secret)),
		Scopes: strings.Fields(o.oidc.scopes), RedirectURL: strings.TrimSuffix(o.publicURL, "/") + "/sign-in/callback",
		Roots: roots,
	}, sessions), nil
}

// readIfNamed returns the content of the file at path, or nil if path is empty. Errors name the
// given flag.
func readIfNamed(flag, path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading --%s: %w", flag, err)
	}
	return content, nil
}

// newLogger returns a logger that writes to standard error. Standard output is reserved for the
// audit log.
func newLogger(debug bool) *slog.Logger {
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	// Leave klog's verbosity at 0. At the highest levels, client-go logs parts of credentials.
	klog.SetSlogLogger(logger)
	ctrllog.SetLogger(logr.FromSlogHandler(logger.Handler()))
	return logger
}
