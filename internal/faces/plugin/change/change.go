// Package change has the subcommands that change an object: suspend, resume, revoke, rotate, and release.
package change

import (
	"github.com/spf13/cobra"

	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
)

// Commands returns the verbs of this group.
func Commands(streams output.Streams) []*cobra.Command {
	return []*cobra.Command{newSuspendCommand(streams), newResumeCommand(streams), newRevokeCommand(streams), newRotateCommand(streams), newReleaseCommand(streams)}
}
