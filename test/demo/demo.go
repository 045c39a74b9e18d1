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

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
	"github.com/realmkeeper/realmkeeper/test/progress"
)

const (
	// systemNamespace is the one of config/manager/namespace.yaml.
	systemNamespace = "realmkeeper-system"
	// patience bounds every wait but those for builds.
	patience = time.Minute
	// grace is how long a process may take to end in good order.
	grace = 10 * time.Second
)

var errInterrupted = errors.New("it was interrupted")

// demo is one demo, and what this run of the program has to do with it.
type demo struct {
	root string // of the repository
	dir  string
	*progress.Progress

	binDir  string // of the control plane
	ports   ports
	cluster client.Client

	// What this run has started, and stops again when it fails.
	controlPlane *controlplane.ControlPlane
	started      []*process.Process
}

func (d *demo) file(name string) string { return filepath.Join(d.dir, name) }

// runDir is the directory of the processes. It is that of the control plane, which
// stops the processes that others have put on record there, too.
func (d *demo) runDir() string { return d.file("run") }

// adminKubeconfig is written by the control plane.
func (d *demo) adminKubeconfig() string { return filepath.Join(d.runDir(), "kubeconfig") }

// up brings the demo up from whatever state it is in, and ends with a token.
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
	if err := d.takeStock(); err != nil {
		return err
	}
	if err := d.build(ctx); err != nil {
		return err
	}
	if err := d.startControlPlane(ctx); err != nil {
		return err
	}
	if err := d.install(ctx); err != nil {
		return err
	}
	if err := d.startOperator(ctx); err != nil {
		return err
	}
	if err := d.startTokenServers(ctx); err != nil {
		return err
	}
	apiClient, err := d.applySamples(ctx)
	if err != nil {
		return err
	}
	return d.showToken(ctx, apiClient)
}

// takeStock looks at what an earlier run has left. Without a whole control plane it is
// of no use: the data of one starts with it.
func (d *demo) takeStock() error {
	running := d.running()
	dead := slices.DeleteFunc(slices.Clone(components), func(name string) bool { return slices.Contains(running, name) })
	_, err := os.Stat(d.runDir())
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(dead) == 0:
		d.Say("The demo is running already.")
	case slices.ContainsFunc(dead, isControlPlane):
		if len(running) > 0 {
			d.Say("Not running any more: %s. The demo starts anew.", strings.Join(dead, ", "))
		}
		if err := controlplane.StopDetached(d.runDir()); err != nil {
			return fmt.Errorf("stopping what is left of an earlier demo: %w", err)
		}
		// Its ports go too: they may be others' by now.
		return errors.Join(os.RemoveAll(d.runDir()), os.RemoveAll(d.file(portsFile)))
	default:
		d.Say("The demo is running already, but for %s.", strings.Join(dead, ", "))
	}
	return d.ports.load(d.file(portsFile))
}

// undo stops what this run has started, and nothing else.
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
		errs = append(errs, errors.New("what this run had started is stopped"))
	}
	if _, err := os.Stat(d.runDir()); err == nil {
		errs = append(errs, fmt.Errorf("the logs are %s", d.short("run/*.log")))
	}
	return errors.Join(errs...)
}

// await tries until there is no error, and gives up when a process that this run has
// started ends, or after some time.
func (d *demo) await(ctx context.Context, doing string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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
			if ended := p.Exited(); ended != nil {
				return fmt.Errorf("%s: %w", doing, ended)
			}
		}
		if ctx.Err() == nil {
			last = err // and not that the time was over
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: given up after %s: %w", doing, patience, last)
		case <-tick.C:
		}
	}
}

// finalError is one that waiting doesn't mend.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }
