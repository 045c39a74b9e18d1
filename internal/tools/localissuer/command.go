package localissuer

import (
	"io"

	"github.com/spf13/cobra"
)

const usage = `Run a token service on this machine for the Realms and ApiClients in files, without a cluster.

The objects are validated with the schemas and rules of the API, and processed by the code of the
operator and of the token server. Errors and conditions are therefore the same as in a cluster.
Secrets, Namespaces, and ServiceAccounts in the files are used, too. Other objects are ignored. The
files are loaded again when they change.

The service is for development and tests. It listens on the loopback interface only, with a
certificate of its own authority, which is in ca.crt in the directory of the credentials. Keys and
client secrets are kept in memory only, unless --state-dir is set.`

const examples = `  # Serve the objects in a directory
  realmkeeper-local -f config/samples

  # In CI, write the credentials to a known place, and get a token
  realmkeeper-local -f deploy/auth --credentials-dir credentials &
  kubectl realmkeeper token --from-directory credentials/acme-apps/billing --wait 10s

  # Keep keys and client secrets across restarts
  realmkeeper-local -f deploy/auth --state-dir ~/.local/state/realmkeeper

  # Serve the output of Kustomize
  kubectl kustomize deploy/overlays/dev | realmkeeper-local -f -`

// NewCommand returns the command realmkeeper-local.
func NewCommand(out, errOut io.Writer) *cobra.Command {
	o := Options{Out: out, ErrOut: errOut}
	command := &cobra.Command{
		Use:     "realmkeeper-local -f FILENAME",
		Short:   "Run a token service for the objects in files, without a cluster",
		Long:    usage,
		Example: examples,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return Run(command.Context(), o)
		},
	}
	flags := command.Flags()
	flags.StringSliceVarP(&o.Files.Names, "filename", "f", nil, "Files or directories with the objects, or - for standard input")
	flags.BoolVarP(&o.Files.Recursive, "recursive", "R", false, "Read the directories in --filename recursively")
	flags.StringVarP(&o.Files.Namespace, "namespace", "n", "default", "Namespace of objects that have none")
	flags.IntVar(&o.Port, "port", 8443, "Port on the loopback interface. 0 selects a free one")
	flags.StringVar(&o.CredentialsDir, "credentials-dir", "", "Directory for the credentials of clients, with files as in a mounted Secret. Defaults to a temporary directory that is removed at the end")
	flags.StringVar(&o.StateDir, "state-dir", "", "Directory for keys and client secrets, which then survive a restart. If empty, they are kept in memory")
	flags.StringVar(&o.AuditLog, "audit-log", "", "File for the audit log, with one line of JSON for each credential decision. Use - for standard output")
	_ = command.MarkFlagRequired("filename") // the flag exists
	return command
}
