package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// shutdownTimeout bounds the wait for requests in flight.
const shutdownTimeout = 10 * time.Second

// SignalContext returns a context that the first SIGINT or SIGTERM cancels. A second signal kills
// the process immediately.
func SignalContext() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Run serves until ctx is done or a server fails, and then shuts both servers down. After ctx is
// done it first drains: /readyz fails and each response closes its connection, while the public
// port still accepts connections for the drain delay.
func (s *Server) Run(ctx context.Context) error {
	watchCtx, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	failed := make(chan error, 2)
	var running sync.WaitGroup
	if s.certificate != nil {
		running.Go(func() { s.certificate.watch(watchCtx) })
		running.Go(func() { failed <- wrap("serving HTTPS", s.public.ServeTLS(s.publicListener, "", "")) })
	} else {
		running.Go(func() { failed <- wrap("serving HTTP", s.public.Serve(s.publicListener)) })
	}
	running.Go(func() { watchMemory(watchCtx, s.relieve) })
	running.Go(func() { failed <- wrap("serving operations", s.operations.Serve(s.operationsListener)) })

	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		s.logger.Info("Started draining", "delay", s.drainDelay.String())
		s.draining.Store(true)
		time.Sleep(s.drainDelay)
	}
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if shutdownErr := s.public.Shutdown(shutdownCtx); errors.Is(shutdownErr, context.DeadlineExceeded) {
		// Clients that don't read their responses must not make a shutdown fail.
		s.logger.Warn("Closed connections that did not end in time")
		_ = s.public.Close()
	} else {
		err = errors.Join(err, shutdownErr)
	}
	restCtx, cancelRest := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancelRest()
	if s.publicStopped != nil {
		s.publicStopped(restCtx)
	}
	stopWatching()
	err = errors.Join(err, s.operations.Shutdown(restCtx))
	running.Wait()
	return err
}

// closeWhileNotReady closes the connection with each response to a request that arrives while the
// server drains or isn't ready, so that the client connects to another server for its next request.
// If the server closed an idle connection instead, a request might already be on its way.
func closeWhileNotReady(ready func() error, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ready() != nil {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}

// wrap adds context to an error. http.ErrServerClosed is not a failure.
func wrap(doing string, err error) error {
	if err == nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
