// Package backup has the subcommands backup and restore.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
	"github.com/realmkeeper/realmkeeper/internal/tools/backup"
)

const backupUsage = `Write the realms and clients of this instance to a file that is encrypted with age: their specs, the
signing keys of the realms, and the hashes of the client secrets. The file contains no client secret
in plaintext. After "kubectl realmkeeper restore" in a new cluster, the same client secrets and
tokens are accepted.

Anyone with the identity file of a recipient can read the signing keys and sign tokens. Keep it
offline, and not in this cluster. The backup contains no Namespaces, Secrets of workloads, or
configuration of the instance.

The exit code is 1 if a record cannot be read, or if a client has more secrets than a restore
accepts. The file then contains everything else.`

const backupExamples = `  # Generate an identity, and keep the file offline. The command prints the recipient
  age-keygen -o identity.txt

  # Back up to a file
  kubectl realmkeeper backup --recipient age1... -o realmkeeper.backup

  # Back up to a new file with the time in its name
  kubectl realmkeeper backup --recipients-file recipients.txt -o /backups/`

// backupOptions are the arguments of the backup subcommand.
type backupOptions struct {
	*cluster.Options

	recipients       []string
	recipientsFiles  []string
	file             string
	overwrite        bool
	recordsNamespace string
}

// Commands returns the verbs of this group.
func Commands(streams output.Streams) []*cobra.Command {
	return []*cobra.Command{newBackupCommand(streams), newRestoreCommand(streams)}
}

func newBackupCommand(streams output.Streams) *cobra.Command {
	o := &backupOptions{Options: cluster.NewOptions(streams)}
	command := &cobra.Command{
		Use:               "backup --recipient age1... -o FILE",
		Short:             "Write realms, clients, and their keys to an encrypted file",
		Long:              backupUsage,
		Example:           backupExamples,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	o.AddConnection(command)
	flags := command.Flags()
	flags.StringArrayVarP(&o.recipients, "recipient", "r", nil, "Encrypt to this age public key, such as age1...; can be repeated")
	flags.StringArrayVarP(&o.recipientsFiles, "recipients-file", "R", nil, "Encrypt to the age public keys in this file, one on each line; can be repeated")
	flags.StringVarP(&o.file, "output", "o", "", "File to write, a directory for a new file with the time in its name, or - for standard output. Required")
	flags.BoolVar(&o.overwrite, "overwrite", false, "Replace the file if it exists")
	addRecordsNamespace(command, &o.recordsNamespace)
	cluster.CompleteFlag(command, "recipient", cobra.NoFileCompletions)
	return command
}

// addRecordsNamespace adds the flag --records-namespace to a command.
func addRecordsNamespace(command *cobra.Command, value *string) {
	command.Flags().StringVar(value, "records-namespace", "", "Namespace of the records. Defaults to that of the installation in the cluster")
}

func (o *backupOptions) run(ctx context.Context) error {
	recipients, err := o.parseRecipients()
	if err != nil {
		return err
	}
	if o.file == "" {
		return fmt.Errorf("%w: set --output to a file, or to - for standard output", output.ErrUsage)
	}
	c, err := o.Connect()
	if err != nil {
		return err
	}
	inst, err := c.FindInstallation(ctx, o.recordsNamespace, "")
	if err != nil {
		return err
	}
	header := backup.Header{
		CreatedAt: c.Clock.Now().UTC().Truncate(time.Second), ServiceURL: inst.ServiceURL,
		RecordsNamespace: inst.RecordsNamespace, PluginVersion: version.Version,
	}
	if o.file == output.Stdio {
		return o.writeToStdout(ctx, c, header, recipients)
	}
	return o.writeToFile(ctx, c, header, recipients)
}

func (o *backupOptions) parseRecipients() ([]age.Recipient, error) {
	var recipients []age.Recipient
	for _, r := range o.recipients {
		parsed, err := backup.ParseRecipients(strings.NewReader(r))
		if err != nil {
			return nil, fmt.Errorf("%w: --recipient %s", err, r)
		}
		recipients = append(recipients, parsed...)
	}
	for _, path := range o.recipientsFiles {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("reading recipients: %w", err)
		}
		parsed, err := backup.ParseRecipients(file)
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("%w: --recipients-file %s", err, path)
		}
		recipients = append(recipients, parsed...)
	}
	if len(recipients) == 0 {
		return nil, fmt.Errorf("%w: set --recipient to the public key of an age identity; age-keygen generates one", output.ErrUsage)
	}
	return recipients, nil
}

func (o *backupOptions) writeToStdout(ctx context.Context, c *cluster.Cluster, header backup.Header, recipients []age.Recipient) error {
	out := untrusted.Raw(o.Streams.Out)
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return fmt.Errorf("%w: the backup is binary; redirect standard output to a file", output.ErrUsage)
	}
	r, err := backUp(ctx, c, out, header, recipients)
	if err != nil {
		return err
	}
	return r.print(o.Streams.ErrOut)
}

func (o *backupOptions) writeToFile(ctx context.Context, c *cluster.Cluster, header backup.Header, recipients []age.Recipient) error {
	path := o.file
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "realmkeeper-"+header.CreatedAt.Format("20060102T150405Z")+".backup")
	}
	file, err := output.CreateFile(path, o.overwrite)
	if errors.Is(err, output.ErrExists) {
		return fmt.Errorf("%w, or use --overwrite", err)
	}
	if err != nil {
		return err
	}
	defer file.Discard()
	r, err := backUp(ctx, c, file, header, recipients)
	if err != nil {
		return err
	}
	if err := file.Commit(); err != nil {
		return err
	}
	r.file = path
	return r.print(o.Streams.Out)
}

// backupReport is the report of backup.
type backupReport struct {
	contents *backup.Contents
	file     string // empty for standard output
	// deleted are the objects that are being deleted. unreadable are the records that can't be read,
	// and orphans those of objects that don't exist or were created in the meantime. The backup
	// contains none of them.
	deleted, unreadable, orphans []string
	// tooMany are the ApiClients with more secrets than a restore accepts.
	tooMany []string
	// otherURL are the realms with another service URL than that of the instance.
	otherURL  []string
	createdAt time.Time
}

var errPartial = errors.New("the backup is incomplete")

// print writes the report. It returns an error if the backup is incomplete.
func (r *backupReport) print(out io.Writer) error {
	w := terminal.NewWriter(out)
	r.Text(w)
	switch err := w.Err(); {
	case err != nil:
		return err
	case len(r.unreadable) > 0:
		return fmt.Errorf("%w: %d records cannot be read; repair or delete them, and back up again", errPartial, len(r.unreadable))
	case len(r.tooMany) > 0:
		return fmt.Errorf("%w: %s more than %d secrets; when workloads no longer use those of an earlier restore, run \"kubectl realmkeeper restore --finish\", and back up again",
			errPartial, output.Number(len(r.tooMany), "client")+output.Has(len(r.tooMany)), record.MaxRestoredSecrets)
	}
	return nil
}

func (r *backupReport) Text(w *terminal.Writer) {
	counts := r.contents.Counts
	file := r.file
	if file == "" {
		file = "standard output"
	}
	w.Paragraph(0, terminal.Green, fmt.Sprintf("Backed up %s and %s to %s", output.Number(counts.Realms, "realm"), output.Number(counts.Clients, "client"), file))
	for _, part := range []struct {
		heading string
		color   terminal.Color
		names   []string
	}{
		{"Records that cannot be read, not included:", terminal.Red, r.unreadable},
		{"ApiClients with secrets that a restore omits:", terminal.Red, r.tooMany},
		{"Realms whose issuer has another service URL than the instance:", terminal.Yellow, r.otherURL},
		{"Objects that are being deleted, not included:", terminal.Plain, r.deleted},
		{"Records without an object, not included:", terminal.Plain, r.orphans},
		{"Objects without a record, which have no keys or secrets yet:", terminal.Plain, r.contents.WithoutRecord},
		{"ApiClients whose Realm does not exist:", terminal.Plain, r.contents.WithoutRealm},
	} {
		output.Named(w, part.color, part.heading, part.names)
	}
}
