// Command workload contains the programs that the end-to-end tests run in the cluster: APIs that
// require tokens, a client for one of them, and a load of token requests. They use common libraries,
// as the programs of Realmkeeper's users do.
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
  workload api [flags]      serve an API that verifies access tokens with the realm's keys
  workload metrics [flags]  serve metrics that require an access token
  workload call [flags]     request a token with a mounted Secret and call that API
  workload token [flags]    request a token with a mounted Secret and print it
  workload file FILE        print a file with a token
  workload load [flags]     request tokens until it is stopped, and print a report
  workload stop             end the load in this container
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

var errUsage = errors.New("invalid arguments")

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	switch args[0] {
	case "api":
		return serveAPI(ctx, flags, args[1:])
	case "metrics":
		return serveMetrics(ctx, flags, args[1:])
	case "call":
		return call(ctx, flags, args[1:])
	case "token":
		return printToken(ctx, flags, args[1:])
	case "file":
		return printFile(args[1:])
	case "load":
		return load(ctx, flags, args[1:])
	case "stop":
		return syscall.Kill(1, syscall.SIGTERM)
	}
	fmt.Fprint(os.Stderr, usage)
	return fmt.Errorf("%w: %q", errUsage, args[0])
}
