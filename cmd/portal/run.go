package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/realmkeeper/realmkeeper/internal/access"
	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/portal"
	"github.com/realmkeeper/realmkeeper/internal/version"
)

const (
	// shutdownTimeout bounds the wait for requests in flight.
	shutdownTimeout = 10 * time.Second
	// auditTimeout bounds the wait for a slow sink at the end.
	auditTimeout = 5 * time.Second
)

// run serves until SIGINT or SIGTERM; a second one ends it at once.
func run(o options) error {
	logger := newLogger(o.debug)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	changes := audit.Open(os.Stdout, logger, time.Now)
	defer closeAudit(changes, logger)
	handler, err := newHandler(o, logger, changes)
	if err != nil {
		return err
	}
	public := portal.NewHTTPServer(handler, logger)
	operations := portal.NewHTTPServer(portal.NewOperations(), logger)
	var lc net.ListenConfig
	publicListener, err := lc.Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listening at --listen: %w", err)
	}
	operationsListener, err := lc.Listen(ctx, "tcp", o.operationsListen)
	if err != nil {
		return fmt.Errorf("listening at --operations-listen: %w", err)
	}

	failed := make(chan error, 3)
	var running sync.WaitGroup
	if o.certFile != "" {
		certificate, err := certwatcher.New(o.certFile, o.keyFile)
		if err != nil {
			return fmt.Errorf("reading the serving certificate at --tls-cert-file and --tls-key-file: %w", err)
		}
		public.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate.GetCertificate, NextProtos: []string{"h2", "http/1.1"}}
		running.Go(func() { failed <- wrap("watching the serving certificate", certificate.Start(ctx)) })
		running.Go(func() { failed <- wrap("serving HTTPS", public.ServeTLS(publicListener, "", "")) })
	} else {
		running.Go(func() { failed <- wrap("serving HTTP", public.Serve(publicListener)) })
	}
	running.Go(func() { failed <- wrap("serving operations", operations.Serve(operationsListener)) })
	logger.Info("Portal listens", "version", version.Version, "revision", version.Revision,
		"address", publicListener.Addr().String(), "operations", operationsListener.Addr().String(), "apiServer", o.apiServer)

	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	stop()
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err = errors.Join(err, public.Shutdown(shutdownCtx), operations.Shutdown(shutdownCtx))
	running.Wait()
	logger.Info("Portal has stopped")
	return err
}

func newHandler(o options, logger *slog.Logger, changes *audit.Log) (http.Handler, error) {
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
	sessions, err := access.NewSessions(bytes.TrimSpace(key), time.Now)
	if err != nil {
		return nil, fmt.Errorf("using --session-key-file: %w", err)
	}
	provider, err := newProvider(o, sessions)
	if err != nil {
		return nil, err
	}
	return portal.New(portal.Options{
		Cluster: cluster, Sessions: sessions, Provider: provider, InitialAdmin: o.initialAdmin,
		Logger: logger, Audit: changes, Now: time.Now, Random: rand.Reader,
	}), nil
}

// newProvider returns the identity provider; nil without one.
func newProvider(o options, sessions *access.Sessions) (*access.Provider, error) {
	if o.oidc.issuerURL == "" {
		return nil, nil //nolint:nilnil // No provider is a good answer.
	}
	secret, err := readIfNamed("oidc-client-secret-file", o.oidc.clientSecretFile)
	if err != nil {
		return nil, err
	}
	ca, err := readIfNamed("oidc-ca-file", o.oidc.caFile)
	if err != nil {
		return nil, err
	}
	httpClient := &http.Client{}
	if ca != nil {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("%w: --oidc-ca-file has no certificate", errUsage)
		}
		httpClient.Transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		}
	}
	return access.NewProvider(access.ProviderOptions{
		Issuer: o.oidc.issuerURL, ClientID: o.oidc.clientID, ClientSecret: string(bytes.TrimSpace(secret)),
		Scopes: strings.Fields(o.oidc.scopes), RedirectURL: strings.TrimSuffix(o.publicURL, "/") + "/sign-in/callback",
		HTTPClient: httpClient,
	}, sessions), nil
}

// readIfNamed reads the file that a flag names; nothing where it names none.
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
	// client-go shortens credentials at its highest levels only, so it isn't let there.
	klog.SetSlogLogger(logger)
	ctrllog.SetLogger(logr.FromSlogHandler(logger.Handler()))
	return logger
}

// closeAudit writes what is pending.
func closeAudit(changes *audit.Log, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), auditTimeout)
	defer cancel()
	if err := changes.Close(ctx); err != nil {
		logger.Error("Audit lines are lost", "error", err)
	}
}
