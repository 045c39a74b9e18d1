// Package controlplane runs a Kubernetes control plane without containers: etcd,
// kube-apiserver and, when asked for, kube-controller-manager, as processes of this
// machine that listen on 127.0.0.1 alone.
//
// Tests run one that dies with them, the demo one that stays. Any number can run side
// by side. There are no nodes and no scheduler: a Pod stays Pending. Package cluster
// adds a node, for which the API server listens where pods reach it.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/test/controlplane/filelock"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// grace is how long a detached process may take to end before it is killed.
const grace = 10 * time.Second

// Options says what to start and where.
type Options struct {
	// Dir holds everything that belongs to the control plane: data, credentials, logs,
	// the kubeconfig, and the process records when detached. It is created when
	// missing. The data of an earlier run in it is removed.
	Dir string

	// BinDir holds the binaries; left out, it is what BinDir returns.
	BinDir string

	// ControllerManager starts kube-controller-manager too. Without it nothing is
	// garbage-collected, namespaces never finish terminating, and no workload
	// controller acts.
	ControllerManager bool

	// Nodes prepares for nodes with pods. Left out, there is no place for any: the API
	// server listens on 127.0.0.1, and no controller looks after nodes and volumes.
	Nodes *Nodes

	// AuditLog is the file to which the API server appends an audit.k8s.io/v1 event of
	// level Metadata per completed request, a JSON object a line. Left out: no log.
	AuditLog string

	// AuthenticationConfig is the file with the issuers whose tokens the API server takes
	// too, an AuthenticationConfiguration of apiserver.config.k8s.io. The API server reads
	// it again when it changes. Left out: none.
	AuthenticationConfig string

	// Proxy is the URL of the HTTP proxy through which the API server finds those
	// issuers. Left out: none.
	Proxy string

	// Detach lets the control plane outlive this process, until StopDetached.
	Detach bool
}

// ControlPlane is a running control plane. Its methods are safe for concurrent use.
type ControlPlane struct {
	options Options
	lock    filelock.Lock // on Options.Dir; etcd, which owns the data in it, holds it too
	ports   ports
	config  *rest.Config

	mu        sync.Mutex
	etcd      *process.Process
	apiServer *process.Process
	manager   *process.Process
}

// Start starts the control plane and returns when the API server is ready and, with
// ControllerManager, its controllers work. ctx bounds the start alone. When a
// component ends early the error holds the end of its log. After an error nothing of
// the control plane runs.
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
		return nil, fmt.Errorf("start a control plane: one is running in %s", options.Dir)
	} else if err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}

	c := &ControlPlane{options: options, lock: lock}
	if err := c.startAll(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a control plane in %s: %w", options.Dir, err), c.Stop())
	}
	return c, nil
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

// RESTConfig reaches the API server as an administrator (group system:masters), with
// no client-side limit on the rate of requests. The caller owns it.
func (c *ControlPlane) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig is the path of a kubeconfig, mode 0600, with the credentials of RESTConfig.
func (c *ControlPlane) Kubeconfig() string { return filepath.Join(c.options.Dir, kubeconfigFile) }

// BinDir returns the directory that contains the binaries.
func (c *ControlPlane) BinDir() string { return c.options.BinDir }

// StartAPIServer starts the API server again after StopAPIServer, at the same address
// with the same data, and returns when it is ready. It does nothing while it runs.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	return c.start(ctx, &c.apiServer, c.apiServerCommand(), c.apiServerReady)
}

// StopAPIServer ends the API server alone, as a crash would: clients find their
// connections broken and new ones refused until StartAPIServer.
func (c *ControlPlane) StopAPIServer() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return stop(&c.apiServer)
}

// Stop ends every component, in the reverse order of the start. The error names those
// that had ended by themselves before. Dir stays. Nobody waits for them to end in
// good order: what counts is in etcd's files, and whoever wants them again, wants
// them as they are.
func (c *ControlPlane) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := errors.Join(stop(&c.manager), stop(&c.apiServer), stop(&c.etcd))
	c.ports.release()
	c.lock.Release()
	return err
}

// start starts a component unless it runs, and waits until it is ready.
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
