package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/realmkeeper/realmkeeper/internal/tools/migration"
)

const importUsage = `Write ApiClients for the clients of another system, and a Realm that accepts them. Callers keep their
client IDs and secrets. They need the new URL of the token endpoint, and a new audience in assertions
that they sign. Let your APIs accept the issuer and the keys of the Realm first.

The import needs no access to a cluster. The objects contain only hashes of secrets. A report on
standard error lists the clients that cannot move, with the reasons. If there are any, the exit code
is 1, but the other clients are written. If a file is damaged, nothing is written.`

const importExamples = `  # Write a file for each object to a new directory
  kubectl realmkeeper import hydra clients.json --hashes hashes.txt --realm acme -n acme-apps --output-dir acme
  kubectl realmkeeper import keycloak realm.json --realm acme -n acme-apps --output-dir acme`

// importOptions are the arguments that the import subcommands share.
type importOptions struct {
	streams   genericiooptions.IOStreams
	target    migration.Target
	outputDir string
	report    string
}

func newImportCommand(streams genericiooptions.IOStreams) *cobra.Command {
	command := &cobra.Command{
		Use:     "import",
		Short:   "Write ApiClients for the clients of Ory Hydra or Keycloak",
		Long:    importUsage,
		Example: importExamples,
		// An unknown system is an error, as are unknown commands.
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newImportHydraCommand(streams), newImportKeycloakCommand(streams))
	return command
}

func (o *importOptions) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.target.Realm, "realm", "", "Name of the Realm to write, which the ApiClients refer to")
	flags.StringVarP(&o.target.Namespace, "namespace", "n", "", "Namespace of the ApiClients")
	flags.StringVar(&o.outputDir, "output-dir", "", "New directory for the files, one for each object. If empty, the objects are written to standard output")
	flags.StringVar(&o.report, "report", "text", "Format of the report on standard error: text or json")
	flags.BoolVar(&o.target.AnyClientID, "any-client-id", false, "Let the ApiClients of the namespace have any client ID, instead of listing the client IDs in the Realm. Required for more than 512 clients")
	for _, name := range []string{"realm", "namespace"} {
		_ = command.MarkFlagRequired(name) // the flag exists
	}
}

// complete validates the arguments.
func (o *importOptions) complete() error {
	if o.report != "text" && o.report != "json" {
		return fmt.Errorf("%w: --report must be text or json, got %q", errUsage, o.report)
	}
	if o.outputDir == "" {
		return nil
	}
	_, err := os.Lstat(o.outputDir)
	if err == nil {
		return fmt.Errorf("%w: %s; choose another name for --output-dir", errExists, o.outputDir)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("writing %s: %w", o.outputDir, err)
	}
	return nil
}

// run writes the objects and the report. If something was not imported, the error is errReported.
func (o *importOptions) run(export *migration.Export) error {
	var manifests []migration.Manifest
	if len(export.Clients) > 0 {
		var err error
		if manifests, err = export.Manifests(o.target); err != nil {
			return err
		}
		if err := o.write(manifests); err != nil {
			return err
		}
	}
	if err := o.writeReport(export); err != nil {
		return err
	}
	if len(export.NotImported) > 0 || len(export.Clients) == 0 {
		return errReported
	}
	return nil
}

func (o *importOptions) write(manifests []migration.Manifest) error {
	if o.outputDir == "" {
		for _, m := range manifests {
			if _, err := fmt.Fprintf(o.streams.Out, "---\n%s", m.YAML); err != nil {
				return err
			}
		}
		return nil
	}
	if err := writeDirectory(o.outputDir, manifests); err != nil {
		return fmt.Errorf("writing %s: %w", o.outputDir, err)
	}
	return nil
}

// writeDirectory creates a directory with files, which appears at its path only when it is complete.
func writeDirectory(path string, manifests []migration.Manifest) error {
	temporary, err := os.MkdirTemp(filepath.Dir(filepath.Clean(path)), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	for _, m := range manifests {
		if err := os.WriteFile(filepath.Join(temporary, m.File), m.YAML, 0o600); err != nil {
			return err
		}
	}
	return os.Rename(temporary, path)
}

// maxImport is the size limit of a file in bytes. An export of 10,000 clients has about 20 MB.
const maxImport = 256 << 20

// readImport reads a file or a pipe, such as the output of another command.
func readImport(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var content bytes.Buffer
	if _, err := io.Copy(&content, io.LimitReader(file, maxImport+1)); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if content.Len() > maxImport {
		return nil, fmt.Errorf("reading %s: %w: the file has more than %d MiB; split the export", path, migration.ErrDamaged, maxImport>>20)
	}
	return content.Bytes(), nil
}
