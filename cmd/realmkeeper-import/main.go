// Command realmkeeper-import writes ApiClients for the clients of Ory Hydra or Keycloak, and a Realm that accepts
// them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
	"github.com/realmkeeper/realmkeeper/internal/tools/migration"
	"github.com/realmkeeper/realmkeeper/internal/tools/migration/hydra"
	"github.com/realmkeeper/realmkeeper/internal/tools/migration/keycloak"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The users of the other system chose much of what is printed.
	out, errOut := untrusted.NewWriter(os.Stdout), untrusted.NewWriter(os.Stderr)
	command := migration.NewCommand(hydra.NewCommand(out, errOut), keycloak.NewCommand(out, errOut))
	command.Version = version.String()
	command.SilenceErrors, command.SilenceUsage = true, true
	err := command.ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	if !errors.Is(err, migration.ErrPartial) { // The report says more.
		fmt.Fprintln(errOut, "realmkeeper-import:", strings.Join(strings.Fields(untrusted.Printable(err.Error())), " "))
	}
	os.Exit(1)
}
