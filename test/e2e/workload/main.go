// Command workload is what end-to-end tests run in the cluster: an API that asks for
// tokens, a client of it, and a load of token requests. Each is written as a user of
// Realmkeeper would write it, with the libraries that users take.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `Usage:
  workload api  [flags]   serve an API that verifies access tokens by the realm's keys
  workload call [flags]   get a token with a mounted Secret, and call that API with it
  workload token [flags]  get a token with a mounted Secret, and print it
  workload load [flags]   ask for tokens until it is stopped, and print what came of it
  workload stop           end the load of this container
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("bad arguments")

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	switch args[0] {
	case "api":
		return serveAPI(ctx, flags, args[1:])
	case "call":
		return call(ctx, flags, args[1:])
	case "token":
		return printToken(ctx, flags, args[1:])
	case "load":
		return load(ctx, flags, args[1:])
	case "stop":
		return syscall.Kill(1, syscall.SIGTERM)
	}
	fmt.Fprint(os.Stderr, usage)
	return fmt.Errorf("%w: %q", errUsage, args[0])
}
