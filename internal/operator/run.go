package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
)

// restartDelay is the time before the operator starts over.
const restartDelay = time.Second

// ErrConfiguration is returned if the operator can't work until a user has changed its configuration.
var ErrConfiguration = errors.New("configuration")

// Run runs the operator until ctx is done. It starts over in place if it has lost the leader Lease, if the
// API server was rolled back, and after every failure that can pass: a new container would have to wait for the
// kubelet, up to 5 minutes. Such a failure can be an API server that is unavailable, or that has not loaded
// the operator's permissions yet.
//
// Errors: ErrInstallation, leader.ErrRestoreHolds, ErrConfiguration, and those of the listeners.
func Run(ctx context.Context, cfg *rest.Config, o Options) error {
	var ready readiness
	servers, ctx := errgroup.WithContext(ctx)
	if err := serve(ctx, servers, o, &ready); err != nil {
		return err
	}
	servers.Go(func() error {
		rolledBack := rollbacks{now: time.Now}
		for {
			err := runOnce(ctx, cfg, &o, &rolledBack, &ready)
			if err == nil || ctx.Err() != nil {
				return errStopped
			}
			if errors.Is(err, ErrInstallation) || errors.Is(err, leader.ErrRestoreHolds) || errors.Is(err, ErrConfiguration) {
				return err
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

// runOnce runs the operator until it fails or ctx is done.
func runOnce(ctx context.Context, cfg *rest.Config, o *Options, rolledBack *rollbacks, ready *readiness) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	registerer := &scope{Registerer: ctrlmetrics.Registry}
	defer registerer.close()
	cfg, now := withClock(cfg, registerer)
	direct, err := newClient(cfg)
	if err != nil {
		return fmt.Errorf("%w: connecting to the API server: %w", ErrConfiguration, err)
	}
	served, err := check(ctx, direct, o, now)
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return fmt.Errorf("%w; an API server that starts denies requests for a short time; if this lasts, restore the operator's ServiceAccount, roles, and role bindings, for example with helm upgrade", err)
	}
	if err != nil {
		return err
	}
	mgr, caches, err := newManager(ctx, cfg, *o, served, rolledBack, now, registerer)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfiguration, err) // newManager sends no requests.
	}
	memory := &memoryWatch{client: direct, pod: o.Pod, synced: caches.waitForSync, clients: caches.countClients, live: liveMemory}
	go wait.UntilWithContext(ctx, memory.check, memoryInterval)
	go collectLess(ctx, caches.waitForSync)
	ready.check.Store(new(healthz.Checker(caches.synced)))
	defer ready.check.Store(nil)
	return mgr.Start(ctx)
}

// check checks that the operator may start, and returns the namespaces that it serves.
//
// Errors: ErrConfiguration, ErrInstallation, leader.ErrRestoreHolds, and those of failed requests.
func check(ctx context.Context, reader client.Reader, o *Options, now func() time.Time) ([]string, error) {
	if err := o.complete(ctx, reader); err != nil {
		return nil, err
	}
	if err := checkInstallation(ctx, reader, o.Instance); err != nil {
		return nil, err
	}
	if !o.LeaderElection {
		if err := leader.CheckNoRestore(ctx, reader, o.Instance.SystemNamespace, now()); err != nil {
			return nil, err
		}
	}
	return servedNamespaces(ctx, reader, o.Instance.WatchNamespaces)
}

// newClient returns a client that needs no discovery and no cache.
func newClient(cfg *rest.Config) (client.Client, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	mapper, err := newMapper(nil, nil)
	if err != nil {
		return nil, err
	}
	return client.New(cfg, client.Options{Scheme: scheme, Mapper: mapper})
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
