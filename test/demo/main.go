// Command demo runs Realmkeeper on this machine, without containers, and gets a token.
//
//	go run -C test ./demo up      // make demo
//	go run -C test ./demo down    // make demo-down
//
// Up starts a control plane, the operator, two token servers and the portal as local
// processes, applies config/samples, requests a token as a client would, and leaves
// everything running. If you run it again, it restarts the processes that have exited.
// Down stops everything.
//
// All files are in the directory .demo:
//
//	env          shell variables for the commands that up prints; source it
//	ca.crt       the certificate authority of the token endpoint
//	config.yaml  the instance configuration
//	ports.json   the ports
//	session.key  the key that seals the portal's sessions
//	tls.*        the serving certificate of the token servers
//	bin/         the operator, the token server and the portal
//	run/         data and credentials, and a log and a process ID per process
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/filelock"
	"github.com/realmkeeper/realmkeeper/test/progress"
)

const usage = `Usage: go run -C test ./demo [--dir DIR] up|down

  up    run Realmkeeper on this machine and get a token; everything keeps running
  down  stop all processes and remove all files
`

func main() {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage); flags.PrintDefaults() }
	dir := flags.String("dir", "", "`Directory` of the demo; defaults to .demo in the repository")
	if err := flags.Parse(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		return
	} else if err != nil {
		os.Exit(2)
	}
	if command := flags.Arg(0); flags.NArg() != 1 || command != "up" && command != "down" {
		flags.Usage()
		os.Exit(2)
	}
	// A second signal ends the program immediately. Down then stops everything that is still
	// running.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	ctrllog.SetLogger(logr.Discard())

	if err := run(ctx, flags.Arg(0), *dir); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo %s: %v\n", flags.Arg(0), err)
		os.Exit(1)
	}
}

func run(ctx context.Context, command, dir string) error {
	d, err := newDemo(dir, os.Stdout)
	if err != nil {
		return err
	}
	if command == "down" {
		return d.down()
	}
	return d.up(ctx)
}

func newDemo(dir string, out io.Writer) (*demo, error) {
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	if dir == "" {
		dir = filepath.Join(root, ".demo")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	return &demo{root: root, dir: dir, Progress: progress.New(out)}, nil
}

// down stops every recorded process and removes the directory.
func (d *demo) down() error {
	if _, err := os.Stat(d.dir); errors.Is(err, os.ErrNotExist) {
		d.Say("No demo found in %s.", d.dir)
		return nil
	}
	unlock, err := d.lock()
	if err != nil {
		return err
	}
	defer unlock()
	running := d.running()
	if err := controlplane.StopDetached(d.runDir()); err != nil {
		return fmt.Errorf("stop the demo: %w", err)
	}
	if err := os.RemoveAll(d.dir); err != nil {
		return fmt.Errorf("remove the files of the demo: %w", err)
	}
	if len(running) > 0 {
		d.Say("Stopped: %s.", strings.Join(running, ", "))
	}
	d.Say("Removed: %s.", d.dir)
	return nil
}

// lock prevents concurrent runs of this program in the same directory.
func (d *demo) lock() (unlock func(), err error) {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := filelock.Try(d.dir)
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("another make demo or make demo-down is using %s; wait until it finishes, or stop it with Ctrl-C", d.dir)
	}
	return lock.Release, err
}
