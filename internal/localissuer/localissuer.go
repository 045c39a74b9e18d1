// Package localissuer runs a token server on this machine for the Realms and ApiClients in files. It
// validates these objects like the API server, evaluates them like the operator, and serves the
// resulting records with the token server's own handlers. It is for development and tests.
package localissuer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/localissuer/admission"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/issuerkeys"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/terminal"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/untrusted"
)

// Options configures a local issuer.
type Options struct {
	Files Files
	// Port is the port on the loopback interface; 0 selects a free one.
	Port int
	// CredentialsDir is the directory for the credentials of clients. If empty, it is a temporary
	// directory that is removed at the end.
	CredentialsDir string
	// StateDir is the directory for keys and client secrets. If empty, they exist only in memory.
	StateDir string
	// AuditLog is the file for the audit log, or "-" for standard output. If empty, there is none.
	AuditLog string
	// Out receives the URLs and conditions, and ErrOut errors and the log.
	Out, ErrOut io.Writer
}

// instanceConfiguration is the configuration of an instance with its defaults.
const instanceConfiguration = `
apiVersion: config.realmkeeper.dev/v1alpha1
kind: InstanceConfiguration
instanceDomain: localhost
security: {defaultTokenLifetime: 5m}
trustedIssuers: {allowLocalAddresses: true}
`

// Run serves until ctx is done. It reloads the files when they change.
//
// It returns an error if the files are invalid at startup, or if it cannot use the port, a directory,
// or the audit log.
func Run(ctx context.Context, o Options) (err error) {
	o.Out, o.ErrOut = untrusted.NewWriter(o.Out), untrusted.NewWriter(o.ErrOut)
	logger := slog.New(slog.NewTextHandler(o.ErrOut, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctrllog.SetLogger(logr.FromSlogHandler(logger.Handler()))
	if o.CredentialsDir == "" {
		if o.CredentialsDir, err = os.MkdirTemp("", "realmkeeper-"); err != nil {
			return fmt.Errorf("creating a directory for credentials: %w", err)
		}
		defer os.RemoveAll(o.CredentialsDir)
	}
	unlock, err := lockState(o.StateDir)
	if err != nil {
		return err
	}
	defer unlock()
	i, err := newIssuer(ctx, o, logger)
	if err != nil {
		return err
	}
	defer i.closeAudit()
	listeners, err := listen(ctx, o.Port)
	if err != nil {
		return err
	}
	i.instance.LocalURL = fmt.Sprintf("https://%s:%d", host, listeners.port)
	if err := i.start(ctx); err != nil {
		listeners.close()
		return err
	}
	stop, err := i.serve(ctx, listeners)
	if err != nil {
		return err
	}
	defer stop()
	i.reporter.start()
	return i.run(ctx)
}

// issuer contains the state that the API server, the operator, and the token server have in a
// cluster.
type issuer struct {
	Options
	rules    *admission.Rules
	instance *config.Instance
	objects  *objects
	state    *state
	versions map[string]version // of the files, before they were first read
	// pending contains the secrets that are recorded but not delivered, by client.
	pending map[key]string

	registry    *registry.Registry
	fetcher     *issuerkeys.Fetcher
	fetched     workqueue.TypedRateLimitingInterface[reconcile.Request]
	certificate servingCertificate
	credentials *credentialFiles
	reporter    *reporter
	audit       *audit.Log
	closeAudit  func()
	logger      *slog.Logger
	now         func() time.Time
}

// loadRules compiles the rules only once, because this takes most of the startup time.
var loadRules = sync.OnceValues(admission.Load)

func newIssuer(ctx context.Context, o Options, logger *slog.Logger) (*issuer, error) {
	rules, err := loadRules()
	if err != nil {
		return nil, err
	}
	instance, err := config.Parse([]byte(instanceConfiguration))
	if err != nil {
		return nil, err
	}
	i := &issuer{
		Options: o, rules: rules, instance: instance, pending: map[key]string{},
		registry: registry.New(), credentials: &credentialFiles{dir: o.CredentialsDir, written: map[string][]byte{}},
		reporter: newReporter(o.Out, o.CredentialsDir), logger: logger, now: time.Now,
		fetched: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
	}
	if i.state, err = openState(o.StateDir, i.now(), rand.Reader); err != nil {
		return nil, err
	}
	i.objects = newObjects(rules, i.state, o.Files.Namespace, i.now)
	if i.audit, i.closeAudit, err = audit.OpenFile(o.AuditLog, logger, i.now); err != nil { //nolint:contextcheck // The log is closed after ctx is done.
		return nil, fmt.Errorf("opening --audit-log: %w", err)
	}
	i.fetcher = issuerkeys.New(instance, metrics.New(prometheus.NewRegistry(), func() int { return 1 }), i.now, mathrand.Float64)
	if err := i.fetcher.Source().Start(ctx, i.fetched); err != nil {
		return nil, err
	}
	return i, nil
}

// errInvalid means that the files can't be applied at startup. Their errors have already been
// printed.
var errInvalid = errors.New("invalid files; correct the errors above")

// start applies the files for the first time.
func (i *issuer) start(ctx context.Context) error {
	i.versions = i.Files.versions()
	if !i.load(ctx) {
		return errInvalid
	}
	_, err := i.reconcile()
	return err
}

// load applies the files, prints each error, and reports whether there was none. An object with an
// error keeps its last admitted content.
func (i *issuer) load(ctx context.Context) bool {
	documents, err := i.Files.read()
	if err != nil {
		terminal.NewWriter(i.ErrOut).Line(terminal.Plain, "Error: %s", err)
		return false
	}
	errs := i.objects.apply(ctx, documents)
	for _, err := range errs {
		terminal.NewWriter(i.ErrOut).Line(terminal.Plain, "Error in %s", err)
	}
	return len(errs) == 0
}

// run reconciles when the files or the keys of trusted issuers change, and when the next round is
// due. It returns when ctx is done.
func (i *issuer) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	defer i.fetched.ShutDown()
	keys, changed := make(chan struct{}), make(chan struct{})
	running.Go(func() { _ = i.fetcher.Start(ctx) }) // it returns no error
	running.Go(func() { i.forwardFetched(ctx, keys) })
	running.Go(func() { i.Files.watch(ctx, i.versions, changed) })
	for {
		wait, err := i.reconcile()
		if err != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-changed:
			if i.load(ctx) {
				fmt.Fprint(i.Out, "\nReloaded the files.\n")
			}
		case <-keys:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// forwardFetched sends a value to keys when the keys of a trusted issuer have changed.
func (i *issuer) forwardFetched(ctx context.Context, keys chan<- struct{}) {
	for {
		request, stopped := i.fetched.Get()
		if stopped {
			return
		}
		select {
		case keys <- struct{}{}:
		case <-ctx.Done():
		}
		i.fetched.Done(request)
	}
}

// loadRegistry makes the token server serve the current records.
func (i *issuer) loadRegistry() {
	for name, err := range feed.Load(i.registry, slices.Collect(maps.Values(i.state.Records))) {
		i.logger.Error("Skipped unreadable record, serving its last known good version", "record", name, "error", err)
	}
}
