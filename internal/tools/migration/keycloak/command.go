package keycloak

import (
	"context"
	"crypto/rand"
	"io"

	"github.com/spf13/cobra"

	"github.com/realmkeeper/realmkeeper/internal/tools/migration"
)

const usage = `Write ApiClients for the confidential clients of a Keycloak realm that have a service account, and a
Realm that accepts them.

The clients are read from a file that "kc.sh export" writes. The file contains the client secrets in
plaintext, so protect it, and delete it afterwards. Exports of the admin console have no secrets. The
objects contain only Argon2id hashes of secrets.

A report on standard error lists the clients that cannot move, with the reasons. If there are any,
the exit code is 1, but the other clients are written. If a file is damaged, nothing is written.`

const examples = `  # Export a realm, and write a file for each object to a new directory
  kc.sh export --realm acme --file realm.json
  realmkeeper-import keycloak realm.json --realm acme -n acme-apps --output-dir acme`

// options are the arguments of the command.
type options struct {
	migration.Options

	fromRealm string
}

// NewCommand returns the subcommand that imports the clients of a realm of Keycloak.
func NewCommand(out, errOut io.Writer) *cobra.Command {
	o := options{Options: migration.Options{Out: out, ErrOut: errOut}}
	o.Target.System = "keycloak"
	command := &cobra.Command{
		Use:     "keycloak EXPORT --realm NAME --namespace NAME",
		Short:   "Write ApiClients for the clients of a Keycloak realm",
		Long:    usage,
		Example: examples,
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, files []string) error {
			if err := o.Complete(); err != nil {
				return err
			}
			return o.read(command.Context(), files[0])
		},
	}
	o.AddFlags(command)
	command.Flags().StringVar(&o.fromRealm, "from-realm", "", "Keycloak realm to import, if the file contains several")
	return command
}

func (o *options) read(ctx context.Context, path string) error {
	content, err := migration.ReadFile(path)
	if err != nil {
		return err
	}
	export, err := Read(ctx, Input{Name: path, Content: content, Realm: o.fromRealm, Random: rand.Reader})
	if err != nil {
		return err
	}
	return o.Run(export)
}
