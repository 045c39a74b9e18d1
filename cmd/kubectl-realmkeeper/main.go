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
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's authentication plugins

	"github.com/realmkeeper/realmkeeper/internal/kubectlplugin"
)

// completer is the name under which kubectl runs a program that completes the arguments of the
// plugin. A link with this name to the plugin is enough.
const completer = "kubectl_complete-realmkeeper"

// arguments returns the arguments of the plugin for a command line.
func arguments(line []string) []string {
	name := strings.TrimSuffix(filepath.Base(line[0]), ".exe")
	if name == completer {
		return append([]string{cobra.ShellCompRequestCmd}, line[1:]...)
	}
	return line[1:]
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	code := kubectlplugin.Run(ctx, streams, arguments(os.Args))
	stop()
	os.Exit(code)
}
