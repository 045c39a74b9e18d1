package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
	"github.com/realmkeeper/realmkeeper/test/progress"
)

const (
	// systemNamespace is the namespace in config/manager/namespace.yaml.
	systemNamespace = "realmkeeper-system"
	// recordsNamespace is the namespace in config/manager/records_namespace.yaml.
	recordsNamespace = "realmkeeper-system-records"
	// timeout limits each wait except builds.
	timeout = time.Minute
	// grace is how long a process may take to exit before it is killed.
	grace = 10 * time.Second
)

var errInterrupted = errors.New("interrupted")

// demo holds the state of one run of this program.
type demo struct {
	root string // the repository
	dir  string
	*progress.Progress

	binDir  string // the binaries of the control plane
	kubectl string // the directory to prepend to PATH for kubectl, or empty
	ports   ports
	config  *rest.Config // of an administrator
	cluster client.Client

	// Everything that this run has started and must stop if it fails.
	controlPlane *controlplane.ControlPlane
	started      []*process.Process
}

func (d *demo) file(name string) string { return filepath.Join(d.dir, name) }

// runDir holds the process records. It is shared with the control plane, which stops every process
// recorded there.
func (d *demo) runDir() string { return d.file("run") }

// adminKubeconfig is a file that the control plane writes.
func (d *demo) adminKubeconfig() string { return filepath.Join(d.runDir(), "kubeconfig") }

// up starts everything that isn't running and then requests a token.
func (d *demo) up(ctx context.Context) (err error) {
	unlock, err := d.lock()
	if err != nil {
		return err
	}
	defer unlock()
	defer func() {
		if err != nil {
			err = d.undo(ctx, err)
		}
	}()

	if d.binDir, err = controlplane.BinDir(ctx, os.Stderr); err != nil {
		return err
	}
	if err := d.inspect(); err != nil {
		return err
	}
	for _, start := range []func(context.Context) error{
		d.build, d.startControlPlane, d.findKubectl, d.install, d.startOperator, d.startTokenServers, d.startPortal,
	} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	apiClient, err := d.applySamples(ctx)
	if err != nil {
		return err
	}
	return d.showToken(ctx, apiClient)
}

// inspect checks the state left by an earlier run. If a component of the control plane has exited,
// nothing can be reused, because a new control plane starts without data.
func (d *demo) inspect() error {
	running := d.running()
	exited := slices.DeleteFunc(slices.Clone(components), func(name string) bool { return slices.Contains(running, name) })
	_, err := os.Stat(d.runDir())
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(exited) == 0:
		d.Say("The demo is already running.")
	case slices.ContainsFunc(exited, isControlPlane):
		if len(running) > 0 {
			d.Say("No longer running: %s. Starting a new demo.", strings.Join(exited, ", "))
		}
		if err := controlplane.StopDetached(d.runDir()); err != nil {
			return fmt.Errorf("stop the processes of an earlier demo: %w", err)
		}
		// Forget the ports, because other programs may use them now.
		return errors.Join(os.RemoveAll(d.runDir()), os.RemoveAll(d.file(portsFile)))
	default:
		d.Say("The demo is already running, except %s.", strings.Join(exited, ", "))
	}
	return d.ports.load(d.file(portsFile))
}

// undo stops only what this run has started.
func (d *demo) undo(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		cause = errInterrupted
	}
	errs := []error{cause}
	for _, p := range slices.Backward(d.started) {
		if p.Exited() == nil {
			errs = append(errs, p.Stop(grace))
		}
	}
	if d.controlPlane != nil {
		errs = append(errs, d.controlPlane.Stop())
	}
	if d.controlPlane != nil || len(d.started) > 0 {
		errs = append(errs, errors.New("the processes that this run started were stopped"))
	}
	if _, err := os.Stat(d.runDir()); err == nil {
		errs = append(errs, fmt.Errorf("see the logs in %s", d.short("run/*.log")))
	}
	return errors.Join(errs...)
}

// await retries until try succeeds. It fails if a process that this run has started
// exits, if the error is a finalError, or after the timeout.
func (d *demo) await(ctx context.Context, doing string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if _, final := errors.AsType[finalError](err); final {
			return fmt.Errorf("%s: %w", doing, err)
		}
		for _, p := range d.started {
			if exited := p.Exited(); exited != nil {
				return fmt.Errorf("%s: %w", doing, exited)
			}
		}
		if ctx.Err() == nil {
			last = err // ignore the error of an expired context
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: timed out after %s: %w", doing, timeout, last)
		case <-tick.C:
		}
	}
}

// finalError is an error that retrying does not resolve.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }
