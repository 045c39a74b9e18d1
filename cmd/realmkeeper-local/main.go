// Command realmkeeper-local runs a token service for the Realms and ApiClients in files, without a cluster.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
	"github.com/realmkeeper/realmkeeper/internal/tools/localissuer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Other users may have written the files.
	errOut := untrusted.NewWriter(os.Stderr)
	command := localissuer.NewCommand(untrusted.NewWriter(os.Stdout), errOut)
	command.Version = version.String()
	command.SilenceErrors, command.SilenceUsage = true, true
	err := command.ExecuteContext(ctx)
	stop()
	if err != nil {
		// Errors can contain line breaks.
		fmt.Fprintln(errOut, "realmkeeper-local:", strings.Join(strings.Fields(untrusted.Printable(err.Error())), " "))
		os.Exit(1)
	}
}
