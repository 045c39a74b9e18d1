// Package plugin implements the kubectl plugin `kubectl realmkeeper`. The subcommands use
// the caller's permissions. They never print an existing secret, and print a token only on request.
// Each package below it has the subcommands of one group, except for cluster and output, which they share.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/backup"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/change"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/inspect"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/provision"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/report"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/token"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
)

const (
	// exitMoved is the exit code of a verb that has become a command of its own.
	exitMoved = 2
	// exitSkipped is the exit code if a restore has skipped ApiClients.
	exitSkipped = 3
)

// Streams are the standard streams of the process.
type Streams = output.Streams

// Run runs the plugin with the given arguments and returns the exit code of the process. On failure
// it prints one line to the error stream and returns 1, exitMoved, or exitSkipped.
func Run(ctx context.Context, streams output.Streams, args []string) int {
	// Almost everything that the subcommands print contains text from objects of other users.
	streams.Out, streams.ErrOut = untrusted.NewWriter(streams.Out), untrusted.NewWriter(streams.ErrOut)
	command := newCommand(streams) //nolint:contextcheck // cobra passes the context to the subcommands
	command.SetArgs(args)
	if err := command.ExecuteContext(ctx); err != nil {
		if errors.Is(err, output.ErrReported) {
			return 1
		}
		if moved, ok := errors.AsType[movedError](err); ok {
			fmt.Fprintln(streams.ErrOut, moved)
			return exitMoved
		}
		// Errors can contain line breaks, and text from objects of other users.
		fmt.Fprintln(streams.ErrOut, "kubectl realmkeeper:", strings.Join(strings.Fields(untrusted.Printable(err.Error())), " "))
		if errors.Is(err, backup.ErrSkipped) {
			return exitSkipped
		}
		return 1
	}
	return 0
}

func newCommand(streams output.Streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "kubectl-realmkeeper",
		Short: "Inspect and operate Realmkeeper: realms, API clients, and their credentials",
		Annotations: map[string]string{
			cobra.CommandDisplayNameAnnotation: "kubectl realmkeeper",
		},
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true}, // kubectl has its own completion for plugins
	}
	command.SetIn(streams.In)
	command.SetOut(untrusted.Raw(streams.Out)) // for help, and for completions, which contain tabs
	command.SetErr(streams.ErrOut)
	command.AddCommand(inspect.Commands(streams)...)
	command.AddCommand(change.Commands(streams)...)
	command.AddCommand(provision.Commands(streams)...)
	command.AddCommand(backup.Commands(streams)...)
	command.AddCommand(
		report.NewCommand(streams),
		token.NewCommand(streams),
		newVersionCommand(streams),
		newMovedCommand("import", "realmkeeper-import", "docs/migration.md"),
		newMovedCommand("serve", "realmkeeper-local", "docs/local-issuer.md"),
	)
	return command
}
