package plugin

import "github.com/spf13/cobra"

// movedError says that a verb has become a command of its own.
type movedError struct{ verb, command, page string }

func (e movedError) Error() string {
	return "kubectl realmkeeper " + e.verb + " is now a command of its own: " + e.command + ". See " + e.page
}

// newMovedCommand returns a verb that has become a command of its own. With any arguments, even with --help, it
// only names that command.
func newMovedCommand(verb, command, page string) *cobra.Command {
	err := movedError{verb, command, page}
	return &cobra.Command{
		Use:                verb,
		Short:              err.Error(),
		Hidden:             true,
		DisableFlagParsing: true,
		ValidArgsFunction:  cobra.NoFileCompletions,
		RunE:               func(*cobra.Command, []string) error { return err },
	}
}
