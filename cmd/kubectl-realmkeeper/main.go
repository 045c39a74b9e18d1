// Command kubectl-realmkeeper is a kubectl plugin. kubectl runs it as `kubectl realmkeeper` if it
// is on the PATH.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's authentication plugins

	"github.com/realmkeeper/realmkeeper/internal/kubectlplugin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	code := kubectlplugin.Run(ctx, streams, os.Args[1:])
	stop()
	os.Exit(code)
}
