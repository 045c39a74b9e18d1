// Command cluster runs a single-node Kubernetes cluster on this machine, without Docker, as
// root.
//
//	go run -C test ./cluster up                    // make cluster-up
//	go run -C test ./cluster down                  // make cluster-down
//	go run -C test ./cluster load FILE...          // import images
//	go run -C test ./cluster exec COMMAND...       // run a program in the node, such as ctr
//	go run -C test ./cluster stop-apiserver        // simulate an outage until start-apiserver
//	go run -C test ./cluster start-apiserver
//
// Up installs missing Debian packages, builds Kubernetes from source once, and returns when
// the node is Ready and Services and DNS work. The cluster pulls images only from a registry on this machine.
// Load imports image archives from `make image`, `docker save` or
// `go run -C hack/image . archive`.
//
// The node runs in an enclosure (see package enclosure), which has its own PID, mount and
// network namespaces. Down stops the first process in them, and the kernel stops the others.
// Outside the enclosure there are only one network interface with two routes, control groups
// named kubepods, and the directory .cluster:
//
//	kubeconfig       of an administrator; written when the cluster is ready
//	run/             data and credentials, and a log and a process ID per process
//	log/, lib/       /var/log and /var/lib of the node
//	enclosure.*      log and process ID of the first process
//	bin/, config/, images/
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

const usage = `Usage: go run -C test ./cluster [--dir DIR] COMMAND

  up               run a single-node cluster on this machine
  down             stop the cluster and remove everything it created
  load FILE...     import image archives into the node
  exec COMMAND...  run a program of this machine in the node, such as ctr
  stop-apiserver   stop only the API server, like a crash
  start-apiserver  restart the API server and the programs of the node that use it

`

var errUsage = errors.New("unknown command or missing arguments")

func main() {
	// A second signal ends the program immediately. Down then removes what is left.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)

	dir := flag.String("dir", "", "`Directory` of the cluster; defaults to .cluster in the repository")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage); flag.PrintDefaults() }
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	err := run(ctx, *dir, flag.Arg(0), flag.Args()[1:])
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case errors.Is(err, errUsage):
		flag.Usage()
		os.Exit(2)
	case failed && flag.Arg(0) == "exec":
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintf(os.Stderr, "\ncluster %s: %v\n", flag.Arg(0), err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir, command string, args []string) error {
	if command == inside {
		return runInside(ctx, args)
	}
	c, err := newCluster(dir, os.Stdout)
	if err != nil {
		return err
	}
	withoutArgs := map[string]func() error{
		"up":           func() error { return c.up(ctx) },
		"down":         func() error { return c.down(context.WithoutCancel(ctx)) },
		stopAPIServer:  func() error { return c.inside(ctx, stopAPIServer) },
		startAPIServer: func() error { return c.inside(ctx, startAPIServer) },
	}
	withArgs := map[string]func() error{
		"load": func() error { return c.load(ctx, args) },
		"exec": func() error { return c.exec(ctx, args) },
	}
	do := withoutArgs[command]
	if len(args) > 0 {
		do = withArgs[command]
	}
	if do == nil {
		return errUsage
	}
	return do()
}
