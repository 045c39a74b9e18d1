// Package kubectlplugin is the command line for people and scripts: `kubectl realmkeeper`.
// Each verb has a file of its own. A verb acts with the rights of who calls it, and shows
// no secret unless that is all it was asked for.
package kubectlplugin

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Run runs the plugin with these arguments and returns the exit code of the process: 0, or
// 1 after one line on the error stream.
func Run(ctx context.Context, streams genericiooptions.IOStreams, args []string) int {
	command := newCommand(streams) //nolint:contextcheck // cobra passes the context on to the verbs
	command.SetArgs(args)
	if err := command.ExecuteContext(ctx); err != nil {
		// Errors of the API server may have several lines.
		fmt.Fprintln(streams.ErrOut, "kubectl realmkeeper:", strings.Join(strings.Fields(err.Error()), " "))
		return 1
	}
	return 0
}

func newCommand(streams genericiooptions.IOStreams) *cobra.Command {
	command := &cobra.Command{
		Use:   "kubectl-realmkeeper",
		Short: "Work with the Realms and ApiClients of Realmkeeper",
		Annotations: map[string]string{
			cobra.CommandDisplayNameAnnotation: "kubectl realmkeeper",
		},
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true}, // kubectl completes plugins in a way of its own
	}
	command.SetIn(streams.In)
	command.SetOut(streams.Out)
	command.SetErr(streams.ErrOut)
	command.AddCommand(
		newHashCommand(streams),
		newTokenCommand(streams),
		newVersionCommand(streams),
	)
	return command
}
