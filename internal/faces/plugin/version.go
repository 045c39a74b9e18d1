package plugin

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
)

func newVersionCommand(streams output.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the plugin version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(streams.Out, version.String())
			return err
		},
	}
}
