package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/tools/tokenagent"
)

// maxHeadersTime limits the time for which a connection to /metrics can send nothing.
const maxHeadersTime = 5 * time.Second

func run(ctx context.Context, o options) error {
	if o.verb == verbCheck {
		return o.file.Check(time.Now())
	}
	// There is a request every few minutes, so CPU is worth less than memory.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(20)
	}
	agent := tokenagent.Agent{
		Request: o.client.Request, File: o.file, Metrics: &tokenagent.Metrics{}, Random: rand.Float64, Now: time.Now,
		KeepExpired: o.keepExpired, Logger: slog.New(slog.NewJSONHandler(os.Stderr, nil)),
	}
	if o.verb == verbOnce {
		ctx, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		if err := agent.Once(ctx); err != nil {
			return fmt.Errorf("no token: %w", err)
		}
		return nil
	}
	if o.metricsAddress != "" {
		stop, err := serve(ctx, o.metricsAddress, agent.Metrics)
		if err != nil {
			return fmt.Errorf("--metrics-address: %w", err)
		}
		defer stop()
	}
	agent.Logger.Info("Token agent started", "version", version.Version, "revision", version.Revision, "output", o.file.Path)
	agent.Run(ctx)
	agent.Logger.Info("Token agent stopped")
	return nil
}

func serve(ctx context.Context, address string, metrics http.Handler) (stop func(), err error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: maxHeadersTime, ReadTimeout: maxHeadersTime, IdleTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }, nil
}
