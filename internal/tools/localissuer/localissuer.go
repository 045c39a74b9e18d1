// Package localissuer runs the operator and a token server on this machine for the Realms and ApiClients
// in files. Both use an API in memory, which validates the objects like the API server. It is for
// development and tests.
package localissuer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
	"github.com/realmkeeper/realmkeeper/internal/operator"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
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
apiVersion: config.realmkeeper.dev/v1beta1
kind: InstanceConfiguration
instanceDomain: localhost
security: {defaultTokenLifetime: 5m}
trustedIssuers: {allowLocalAddresses: true}
`

// Namespaces of the instance in the API in memory.
const (
	systemNamespace  = "realmkeeper-system"
	recordsNamespace = "realmkeeper-system-records"
)

// Run serves until ctx is done. It reloads the files when they change.
//
// It returns an error if the files are invalid at startup, or if it cannot use the port, a directory,
// or the audit log.
func Run(ctx context.Context, o Options) (err error) {
	o.Out, o.ErrOut = untrusted.NewWriter(o.Out), untrusted.NewWriter(o.ErrOut)
	logger := slog.New(slog.NewTextHandler(o.ErrOut, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctrllog.SetLogger(operator.Logger(logr.FromSlogHandler(logger.Handler())))
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
	objects, state, err := openObjects(ctx, o.StateDir, o.Files.Namespace)
	if err != nil {
		return err
	}
	auditLog, closeAudit, err := audit.OpenFile(o.AuditLog, logger, time.Now) //nolint:contextcheck // The log is closed after ctx is done.
	if err != nil {
		return fmt.Errorf("opening --audit-log: %w", err)
	}
	defer closeAudit()
	instance, err := config.Parse([]byte(instanceConfiguration))
	if err != nil {
		return err
	}
	listeners, err := listen(ctx, o.Port)
	if err != nil {
		return err
	}
	instance.SystemNamespace, instance.RecordsNamespace = systemNamespace, recordsNamespace
	instance.LocalURL = fmt.Sprintf("https://%s:%d", host, listeners.port)
	i := &issuer{
		Options: o, objects: objects, state: state, logger: logger,
		credentials: &credentialFiles{dir: o.CredentialsDir, written: map[string][]byte{}}, reporter: newReporter(o.Out, o.CredentialsDir),
		settledAt: time.Now(),
	}
	versions := o.Files.versions()
	if !i.load(ctx) {
		listeners.close()
		return errInvalid
	}
	return i.run(ctx, instance, listeners, auditLog, versions)
}

// issuer is the state of a running local issuer.
type issuer struct {
	Options
	objects     *objects
	state       *state
	certificate servingCertificate
	credentials *credentialFiles
	reporter    *reporter
	logger      *slog.Logger
	settledAt   time.Time // when the operator had last finished with all objects
}

// errInvalid means that the files can't be applied at startup. Their errors have already been
// printed.
var errInvalid = errors.New("invalid files; correct the errors above")

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

// run runs the operator and the token server, and follows the files, until ctx is done.
func (i *issuer) run(ctx context.Context, instance *config.Instance, l *listeners, auditLog *audit.Log, loaded map[string]version) (err error) {
	cfg := &rest.Config{Host: "http://memory", Transport: i.objects.store.Transport(), ContentConfig: rest.ContentConfig{ContentType: "application/json"}, QPS: -1}
	if _, err := i.renewCertificate(); err != nil {
		l.close()
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	stop, err := i.serve(ctx, cfg, l, auditLog, &running)
	if err != nil {
		return err
	}
	defer stop()
	mgr, err := operator.NewLocal(ctx, cfg, instance)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	running.Go(func() { failed <- mgr.Start(ctx) })
	changed := make(chan struct{})
	running.Go(func() { i.Files.watch(ctx, loaded, changed) })
	return i.follow(ctx, changed, failed)
}

const (
	// settleTime is how long an object may be in progress before it is reported.
	settleTime = 5 * time.Second
	// quiet is the time without changes of objects after which they are reported.
	quiet = 20 * time.Millisecond
	// maxWait is the longest time between two checks of timers, which can stop while the machine sleeps.
	maxWait = time.Minute
)

// follow writes and reports changes of objects, applies changes of files, and renews the serving
// certificate.
func (i *issuer) follow(ctx context.Context, files <-chan struct{}, failed <-chan error) error {
	for {
		_, next, err := i.objects.store.Since(i.objects.revision())
		if err != nil {
			return err
		}
		settled, err := i.publish()
		if err != nil {
			return err
		}
		wait, err := i.renewCertificate()
		if err != nil {
			return err
		}
		if !settled {
			wait = min(wait, settleTime)
		}
		timer := time.NewTimer(min(wait, maxWait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case err := <-failed:
			timer.Stop()
			return err
		case <-files:
			if i.load(ctx) {
				fmt.Fprint(i.Out, "\nReloaded the files.\n")
			}
		case <-next:
			pause(ctx, quiet)
		case <-timer.C:
		}
		timer.Stop()
	}
}

// publish saves the state, writes the credentials, and reports the objects once the operator has finished
// with all of them, or has not for settleTime. It returns whether it has finished.
func (i *issuer) publish() (settled bool, err error) {
	realms, clients, existing := i.objects.realms(), i.objects.clients(), i.objects.fromFiles()
	// The credentials of a client that is reported as Ready must be in the files already.
	if err := i.write(); err != nil {
		return false, err
	}
	if settled = !inProgress(realms, clients); settled {
		i.settledAt = time.Now()
	}
	if settled || time.Since(i.settledAt) > settleTime {
		i.reporter.report(realms, clients, existing)
	}
	return settled, nil
}

// write saves the state, and writes the credentials to files.
func (i *issuer) write() error {
	if err := i.state.save(i.objects.store); err != nil {
		return err
	}
	return i.writeCredentials()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
