package migration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

const usage = `Write ApiClients for the clients of another system, and a Realm that accepts them. Callers keep their
client IDs and secrets. They need the new URL of the token endpoint, and a new audience in assertions
that they sign. Let your APIs accept the issuer and the keys of the Realm first.

The import needs no access to a cluster. The objects contain only hashes of secrets. A report on
standard error lists the clients that cannot move, with the reasons. If there are any, the exit code
is 1, but the other clients are written. If a file is damaged, nothing is written.`

const examples = `  # Write a file for each object to a new directory
  realmkeeper-import hydra clients.json --hashes hashes.txt --realm acme -n acme-apps --output-dir acme
  realmkeeper-import keycloak realm.json --realm acme -n acme-apps --output-dir acme`

// NewCommand returns the command realmkeeper-import with a subcommand for each system.
func NewCommand(systems ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use:     "realmkeeper-import",
		Short:   "Write ApiClients for the clients of Ory Hydra or Keycloak",
		Long:    usage,
		Example: examples,
		// An unknown system is an error, as are unknown commands.
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(systems...)
	return command
}

// Options are the arguments that the subcommands share.
type Options struct {
	Out, ErrOut io.Writer
	Target      Target

	outputDir string
	report    string
}

// AddFlags adds the flags to a subcommand.
func (o *Options) AddFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.Target.Realm, "realm", "", "Name of the Realm to write, which the ApiClients refer to")
	flags.StringVarP(&o.Target.Namespace, "namespace", "n", "", "Namespace of the ApiClients")
	flags.StringVar(&o.outputDir, "output-dir", "", "New directory for the files, one for each object. If empty, the objects are written to standard output")
	flags.StringVar(&o.report, "report", "text", "Format of the report on standard error: text or json")
	flags.BoolVar(&o.Target.AnyClientID, "any-client-id", false, "Let the ApiClients of the namespace have any client ID, instead of listing the client IDs in the Realm. Required for more than 512 clients")
	for _, name := range []string{"realm", "namespace"} {
		_ = command.MarkFlagRequired(name) // the flag exists
	}
}

var (
	// ErrUsage means that an argument is invalid.
	ErrUsage = errors.New("invalid arguments")
	// ErrPartial means that something was not imported. The report says why.
	ErrPartial = errors.New("not everything was imported")

	errExists = errors.New("the file exists")
)

// Complete validates the arguments.
//
// Errors: ErrUsage.
func (o *Options) Complete() error {
	if o.report != "text" && o.report != "json" {
		return fmt.Errorf("%w: --report must be text or json, got %q", ErrUsage, o.report)
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

// Run writes the objects and the report.
//
// Errors: ErrPartial.
func (o *Options) Run(export *Export) error {
	var manifests []Manifest
	if len(export.Clients) > 0 {
		var err error
		if manifests, err = export.Manifests(o.Target); err != nil {
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
		return ErrPartial
	}
	return nil
}

func (o *Options) write(manifests []Manifest) error {
	if o.outputDir == "" {
		for _, m := range manifests {
			if _, err := fmt.Fprintf(o.Out, "---\n%s", m.YAML); err != nil {
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
func writeDirectory(path string, manifests []Manifest) error {
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

// maxFile is the size limit of a file in bytes. An export of 10,000 clients has about 20 MB.
const maxFile = 256 << 20

// ReadFile reads a file or a pipe, such as the output of another command.
//
// Errors: ErrDamaged if it is too large.
func ReadFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var content bytes.Buffer
	if _, err := io.Copy(&content, io.LimitReader(file, maxFile+1)); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if content.Len() > maxFile {
		return nil, fmt.Errorf("reading %s: %w: the file has more than %d MiB; split the export", path, ErrDamaged, maxFile>>20)
	}
	return content.Bytes(), nil
}
