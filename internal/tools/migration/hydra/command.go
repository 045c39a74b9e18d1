package hydra

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/realmkeeper/realmkeeper/internal/tools/migration"
)

const usage = `Write ApiClients for the clients of Ory Hydra, and a Realm that accepts them.

The clients are read from files with responses to GET /admin/clients, or with the output of "hydra
list clients --format json". Pass all pages. Only the database of Hydra contains the hashes of the
secrets. They are read from a file with a line "<client ID>|<hash>" for each secret. Clients with
private_key_jwt and inline keys need no hash.

The objects contain only hashes of secrets. A report on standard error lists the clients that cannot
move, with the reasons. If there are any, the exit code is 1, but the other clients are written. If
a file is damaged, nothing is written.`

const examples = `  # Export the clients and the hashes of their secrets
  curl -sf 'http://hydra-admin:4445/admin/clients?page_size=500' > clients.json
  psql -At "$DSN" -c "select id, client_secret from hydra_client" > hashes.txt

  # Write a file for each object to a new directory
  realmkeeper-import hydra clients.json --hashes hashes.txt --realm acme -n acme-apps --output-dir acme`

// options are the arguments of the command.
type options struct {
	migration.Options

	hashes        string
	tokenLifetime time.Duration
}

// NewCommand returns the subcommand that imports the clients of Hydra.
func NewCommand(out, errOut io.Writer) *cobra.Command {
	o := options{Options: migration.Options{Out: out, ErrOut: errOut}}
	o.Target.System = "hydra"
	command := &cobra.Command{
		Use:     "hydra CLIENTS... --hashes FILE --realm NAME --namespace NAME",
		Short:   "Write ApiClients for the clients of Ory Hydra",
		Long:    usage,
		Example: examples,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			if err := o.Complete(); err != nil {
				return err
			}
			return o.read(files)
		},
	}
	o.AddFlags(command)
	flags := command.Flags()
	flags.StringVar(&o.hashes, "hashes", "", "File with a line \"<client ID>|<hash>\" for each secret")
	flags.DurationVar(&o.tokenLifetime, "token-lifetime", time.Hour, "Token lifetime of clients that do not set one, which is ttl.access_token in Hydra's configuration")
	_ = command.MarkFlagRequired("hashes") // the flag exists
	return command
}

func (o *options) read(files []string) error {
	if err := checkLifetime(o.tokenLifetime); err != nil {
		return err
	}
	input := Input{TokenLifetime: o.tokenLifetime}
	for _, path := range files {
		content, err := migration.ReadFile(path)
		if err != nil {
			return err
		}
		input.Clients = append(input.Clients, File{Name: path, Content: content})
	}
	content, err := migration.ReadFile(o.hashes)
	if err != nil {
		return err
	}
	input.Hashes = File{Name: o.hashes, Content: content}
	export, err := Read(input)
	if err != nil {
		return err
	}
	return o.Run(export)
}

func checkLifetime(lifetime time.Duration) error {
	if lifetime < 10*time.Second || lifetime > 24*time.Hour || lifetime%time.Second != 0 {
		return fmt.Errorf("%w: --token-lifetime must be between 10s and 24h in whole seconds, got %s", migration.ErrUsage, lifetime)
	}
	return nil
}
