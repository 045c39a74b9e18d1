// Package controlplane runs a Kubernetes control plane without containers: etcd,
// kube-apiserver and, optionally, kube-controller-manager, as local processes that listen
// only on 127.0.0.1.
//
// The control plane of a test exits with the test. The control plane of the demo keeps
// running. Any number of control planes can run at the same time. There are no nodes and no
// scheduler, so Pods stay Pending. Package cluster adds a node; then the API server listens
// on an address that Pods can reach.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/test/controlplane/filelock"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// grace is how long a detached process may take to exit before it is killed.
const grace = 10 * time.Second

// Options configure a control plane.
type Options struct {
	// Dir contains data, credentials, logs, the kubeconfig and, if detached, the process
	// records. It is created if it does not exist. Data of an earlier run is removed.
	Dir string

	// BinDir is the directory of the binaries. It defaults to the result of BinDir.
	BinDir string

	// ControllerManager also starts kube-controller-manager. Without it, there is no
	// garbage collection, namespaces never finish terminating, and workload controllers
	// don't run.
	ControllerManager bool

	// Nodes configures the control plane for nodes with Pods. If nil, the API server
	// listens on 127.0.0.1, and the controllers for nodes and volumes don't run.
	Nodes *Nodes

	// AuditLog is the file to which the API server appends an audit.k8s.io/v1 event at level
	// Metadata for each completed request, one JSON object per line. If empty, there is no
	// log.
	AuditLog string

	// AuthenticationConfig is a file with an AuthenticationConfiguration of
	// apiserver.config.k8s.io, which lists additional token issuers. The API server reloads
	// the file when it changes. If empty, there are no additional issuers.
	AuthenticationConfig string

	// Proxy is the URL of an HTTP proxy through which the API server connects to those
	// issuers. If empty, it connects directly.
	Proxy string

	// Snapshot is a file of SaveSnapshot from which etcd is restored. BinDir must contain RestoreTool.
	// If empty, etcd starts without data.
	Snapshot string

	// FeatureGates are feature gates of the API server to enable, and APIs are the APIs to serve in
	// addition to the default ones, such as certificates.k8s.io/v1beta1/clustertrustbundles.
	FeatureGates, APIs []string

	// Detach keeps the control plane running after this process exits, until StopDetached.
	Detach bool
}

// ControlPlane is a running control plane. Its methods are safe for concurrent use.
type ControlPlane struct {
	options Options
	lock    filelock.Lock // on Options.Dir; etcd inherits it
	ports   ports
	issuers []string // of service account tokens, before the default one
	config  *rest.Config

	mu        sync.Mutex
	etcd      *process.Process
	apiServer *process.Process
	manager   *process.Process
}

// Start starts the control plane and returns when the API server is ready and, with
// ControllerManager, the controllers are working. ctx applies only to the start. If a
// component exits early, the error contains the end of its log. After an error, no component
// is running.
func Start(ctx context.Context, options Options) (_ *ControlPlane, err error) {
	if options.BinDir == "" {
		if options.BinDir, err = BinDir(ctx, os.Stderr); err != nil {
			return nil, err
		}
	}
	if options.Dir, err = filepath.Abs(options.Dir); err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}
	lock, err := filelock.Try(filepath.Join(options.Dir, "lock"))
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("start a control plane: another one is running in %s", options.Dir)
	} else if err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}

	if err := count(); err != nil {
		return nil, err
	}
	c := &ControlPlane{options: options, lock: lock}
	if err := c.startAll(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a control plane in %s: %w", options.Dir, err), c.Stop())
	}
	return c, nil
}

// countVariable is the environment variable with the path of a file. For each control plane that starts, a line is
// appended to it: .ci/run counts them.
const countVariable = "REALMKEEPER_COUNT_CONTROL_PLANES"

func count() error {
	path := os.Getenv(countVariable)
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("count the control planes: %w", err)
	}
	_, err = fmt.Fprintln(file, strings.Join(os.Args, " "))
	return errors.Join(err, file.Close())
}

func (c *ControlPlane) startAll(ctx context.Context) (err error) {
	if err := os.RemoveAll(c.file(dataDir)); err != nil {
		return err
	}
	if c.ports, err = reservePorts(); err != nil {
		return err
	}
	if c.config, err = c.writeCredentials(); err != nil {
		return err
	}
	if c.options.Detach {
		if err := c.remember(); err != nil {
			return err
		}
	}
	if c.options.Snapshot != "" {
		if err := c.restoreSnapshot(ctx, c.options.Snapshot); err != nil {
			return err
		}
	}
	if err := c.start(ctx, &c.etcd, c.etcdCommand(), c.etcdReady); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	if !c.options.ControllerManager {
		return nil
	}
	return c.start(ctx, &c.manager, c.managerCommand(), c.managerReady)
}

// RESTConfig returns a new configuration for an administrator (group system:masters) without
// a client-side rate limit.
func (c *ControlPlane) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of a kubeconfig, mode 0600, with the credentials of RESTConfig.
func (c *ControlPlane) Kubeconfig() string { return filepath.Join(c.options.Dir, kubeconfigFile) }

// BinDir returns the directory that contains the binaries.
func (c *ControlPlane) BinDir() string { return c.options.BinDir }

// StartAPIServer restarts the API server after StopAPIServer, with the same address and data,
// and returns when it is ready. It does nothing if the API server is running.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	return c.start(ctx, &c.apiServer, c.apiServerCommand(), c.apiServerReady)
}

// StopAPIServer kills only the API server, like a crash. Connections of clients break, and
// new ones are refused until StartAPIServer.
func (c *ControlPlane) StopAPIServer() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return stop(&c.apiServer)
}

// Stop kills all components in reverse start order. The error names components that had
// already exited. Stop keeps Dir. It does not wait for a graceful shutdown, because nothing
// reads the data afterwards.
func (c *ControlPlane) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := errors.Join(stop(&c.manager), stop(&c.apiServer), stop(&c.etcd))
	c.ports.release()
	c.lock.Release()
	return err
}

// start starts a component if it isn't running and waits until it is ready.
func (c *ControlPlane) start(
	ctx context.Context, component **process.Process, command process.Command, ready func(context.Context) error,
) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *component != nil {
		return (*component).Exited()
	}
	started, err := process.Start(command)
	if err != nil {
		return err
	}
	if err := started.Await(ctx, ready); err != nil {
		return errors.Join(err, started.Kill())
	}
	*component = started
	return nil
}

func stop(component **process.Process) error {
	if *component == nil {
		return nil
	}
	err := errors.Join((*component).Exited(), (*component).Kill())
	*component = nil
	return err
}
