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

const program = "realmkeeper-local"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	command := localissuer.NewCommand(program, os.Stdout, os.Stderr)
	command.Version = version.String()
	command.SilenceErrors, command.SilenceUsage = true, true
	err := command.ExecuteContext(ctx)
	stop()
	if err != nil {
		// Errors can contain line breaks, and text from the files.
		fmt.Fprintln(os.Stderr, program+":", strings.Join(strings.Fields(untrusted.Printable(err.Error())), " "))
		os.Exit(1)
	}
}
