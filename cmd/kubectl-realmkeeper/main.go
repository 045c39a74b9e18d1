// Command kubectl-realmkeeper is a kubectl plugin. kubectl runs it as `kubectl realmkeeper` if it
// is on the PATH.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's authentication plugins

	"github.com/realmkeeper/realmkeeper/internal/faces/plugin"
)

// completer is the name of the program that kubectl runs to complete the plugin's arguments. It can
// be a link to the plugin.
const completer = "kubectl_complete-realmkeeper"

// arguments returns the plugin's arguments for a command line. If the plugin runs as completer, they
// request a completion.
func arguments(line []string) []string {
	name := strings.TrimSuffix(filepath.Base(line[0]), ".exe")
	if name == completer {
		return append([]string{cobra.ShellCompRequestCmd}, line[1:]...)
	}
	return line[1:]
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := plugin.Streams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	code := plugin.Run(ctx, streams, arguments(os.Args))
	stop()
	os.Exit(code)
}
