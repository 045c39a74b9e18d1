package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// restartDelay is the time before the operator starts over, and between two attempts to reach the API server.
const restartDelay = time.Second

// Run runs the operator until ctx is done. It starts over in place if it has lost the leader Lease, if the
// API server was rolled back, or after another failure of the manager: a new container would have to wait
// for the kubelet, up to 5 minutes. While the API server is unavailable, it waits.
//
// Errors: those of the configuration and the installation, which are ErrInstallation and
// leader.ErrRestoreHolds, and those of the listeners.
func Run(ctx context.Context, cfg *rest.Config, o Options) error {
	var ready readiness
	servers, ctx := errgroup.WithContext(ctx)
	if err := serve(ctx, servers, o, &ready); err != nil {
		return err
	}
	servers.Go(func() error {
		found := rollbacks{now: time.Now}
		for {
			err := runOnce(ctx, cfg, o, &found, &ready)
			if err == nil || ctx.Err() != nil {
				return errStopped
			}
			if final := (finalError{}); errors.As(err, &final) {
				return final.error
			}
			ctrl.Log.Error(err, "Operator failed, will start over")
			sleep(ctx, restartDelay)
		}
	})
	if err := servers.Wait(); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

// errStopped ends the servers of an operator that was told to stop.
var errStopped = errors.New("the operator stops")

// finalError is an error after which the operator doesn't start over.
type finalError struct{ error }

// runOnce runs the operator until it fails or ctx is done.
func runOnce(ctx context.Context, cfg *rest.Config, o Options, found *rollbacks, ready *readiness) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	registerer := &scope{Registerer: ctrlmetrics.Registry}
	defer registerer.close()
	mgr, caches, err := newManager(ctx, cfg, o, found, registerer)
	if err != nil {
		if Unavailable(err) {
			return err
		}
		return finalError{err}
	}
	ready.check.Store(new(healthz.Checker(caches.synced)))
	defer ready.check.Store(nil)
	return mgr.Start(ctx)
}

// Unavailable reports whether a request failed because the API server can't be reached or doesn't work.
func Unavailable(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code := status.Status().Code
		return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
	}
	_, failed := errors.AsType[*url.Error](err)
	return failed || errors.Is(err, context.DeadlineExceeded)
}

// AwaitAPIServer repeats a request while the API server is unavailable.
func AwaitAPIServer(ctx context.Context, request func() error) error {
	for {
		err := request()
		if err == nil || !Unavailable(err) || ctx.Err() != nil {
			return err
		}
		ctrl.Log.Info("API server is unavailable, will retry", "error", err.Error())
		sleep(ctx, restartDelay)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// scope registers metrics and unregisters all of them.
type scope struct {
	prometheus.Registerer

	registered []prometheus.Collector
}

// MustRegister implements prometheus.Registerer.
func (s *scope) MustRegister(collectors ...prometheus.Collector) {
	s.Registerer.MustRegister(collectors...)
	s.registered = append(s.registered, collectors...)
}

func (s *scope) close() {
	for _, collector := range s.registered {
		s.Unregister(collector)
	}
}

// readiness is the readiness check of the current manager. Without a manager, the operator isn't ready.
type readiness struct {
	check atomic.Pointer[healthz.Checker]
}

func (r *readiness) synced(request *http.Request) error {
	if check := r.check.Load(); check != nil {
		return (*check)(request)
	}
	return errNotSynced
}

// serve starts the servers of the probes and of the metrics.
func serve(ctx context.Context, servers *errgroup.Group, o Options, ready *readiness) error {
	metrics, err := metricsserver.NewServer(metricsserver.Options{BindAddress: o.MetricsAddress}, nil, nil)
	if err != nil {
		return fmt.Errorf("creating the server of the metrics: %w", err)
	}
	if metrics != nil {
		servers.Go(func() error { return metrics.Start(ctx) })
	}
	if o.ProbeAddress == "0" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.ProbeAddress)
	if err != nil {
		return fmt.Errorf("listening for probes: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/healthz", healthz.CheckHandler{Checker: healthz.Ping})
	mux.Handle("/readyz", healthz.CheckHandler{Checker: ready.synced})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	servers.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving probes: %w", err)
		}
		return nil
	})
	return nil
}
