// Command cluster runs a Kubernetes cluster of one node on this machine, without Docker,
// as root.
//
//	go run -C test ./cluster up                    // make cluster-up
//	go run -C test ./cluster down                  // make cluster-down
//	go run -C test ./cluster load FILE...          // images for pods to run
//	go run -C test ./cluster exec COMMAND...       // a program inside, such as ctr
//	go run -C test ./cluster stop-apiserver        // an outage, until:
//	go run -C test ./cluster start-apiserver
//
// Up installs the Debian packages that are missing, builds Kubernetes from source once,
// and returns when the node is Ready and Services and names work. Nothing is pulled from a
// registry: load takes archives of images, as `make image`, `docker save` and
// `go run -C hack/image . archive` write them.
//
// The node lives in an enclosure (see there): namespaces with process ids, mounts and a
// network of their own. Down ends its first process, and the kernel ends the rest. What
// else there is on this machine is one network interface with two routes, control groups
// named kubepods, and the directory .cluster:
//
//	kubeconfig       an administrator's; it is there once the cluster is
//	run/             the node's processes: data, credentials, a log and a process id each
//	log/, lib/       the node's /var/log and /var/lib
//	enclosure.*      the first process
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

  up               run a cluster of one node on this machine
  down             stop it and remove all that it made
  load FILE...     give the node images, as archives
  exec COMMAND...  run a program of this machine inside the node, such as ctr
  stop-apiserver   stop the API server alone, as a crash would
  start-apiserver  start it again

`

var errUsage = errors.New("unknown command or missing arguments")

func main() {
	// A second signal ends the program at once; down then removes what is left.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)

	dir := flag.String("dir", "", "the `directory` of the cluster; default: .cluster in the repository")
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
	without := map[string]func() error{
		"up":           func() error { return c.up(ctx) },
		"down":         func() error { return c.down(context.WithoutCancel(ctx)) },
		stopAPIServer:  func() error { return c.inside(ctx, stopAPIServer) },
		startAPIServer: func() error { return c.inside(ctx, startAPIServer) },
	}
	with := map[string]func() error{
		"load": func() error { return c.load(ctx, args) },
		"exec": func() error { return c.exec(ctx, args) },
	}
	do := without[command]
	if len(args) > 0 {
		do = with[command]
	}
	if do == nil {
		return errUsage
	}
	return do()
}
