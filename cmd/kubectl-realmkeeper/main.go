// Command kubectl-realmkeeper is a plugin of kubectl: with it on the PATH there is
// `kubectl realmkeeper`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // every way to log in that kubectl has

	"github.com/realmkeeper/realmkeeper/internal/kubectlplugin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	code := kubectlplugin.Run(ctx, streams, os.Args[1:])
	stop()
	os.Exit(code)
}
