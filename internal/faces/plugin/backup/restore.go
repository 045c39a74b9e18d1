package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
	"github.com/realmkeeper/realmkeeper/internal/serve/untrusted"
	"github.com/realmkeeper/realmkeeper/internal/tools/backup"
	"github.com/realmkeeper/realmkeeper/internal/tools/restore"
)

const restoreUsage = `Restore the realms and clients of a backup, so that the same client secrets and tokens are accepted
as before. Missing Realms and ApiClients are created. Existing ones keep their spec. Signing keys,
identities of clients, and hashes of client secrets are put back.

The whole backup is checked first. If a Realm in it cannot be restored, nothing is written. The
restore then takes the leader Lease of the operator, which stops meanwhile and continues afterwards.
If a restore stops halfway, run it again after a minute, or release the Lease with --abort.

An ApiClient that cannot be restored does not affect others. The output says why, and the exit code
is 3. Correct the cause, and run the same command again to restore the rest.

A realm that is in use is not changed without --replace. With it, the signing key of the backup
becomes the next key of the realm, and clients accept the secrets of the backup in addition.

Restored client secrets are accepted, even without a credentials Secret, until you run
"kubectl realmkeeper restore --finish".`

const restoreExamples = `  # Show what would be done
  kubectl realmkeeper restore --identity identity.txt realmkeeper.backup --dry-run

  # Restore
  kubectl realmkeeper restore --identity identity.txt realmkeeper.backup

  # After all workloads use the secret in their credentials Secret: reject the restored secrets
  kubectl realmkeeper restore --finish

  # Let the operator continue after a restore was killed
  kubectl realmkeeper restore --abort`

// restoreOptions are the arguments of the restore subcommand.
type restoreOptions struct {
	*cluster.Options

	identities       []string
	dryRun           bool
	finish           bool
	abort            bool
	replace          bool
	realm            string
	recordsNamespace string
	systemNamespace  string
	serviceURL       string
}

func newRestoreCommand(streams output.Streams) *cobra.Command {
	o := &restoreOptions{Options: cluster.NewOptions(streams)}
	command := &cobra.Command{
		Use:     "restore (--identity FILE BACKUP | --finish | --abort)",
		Short:   "Restore realms, clients, and their keys from a backup",
		Long:    restoreUsage,
		Example: restoreExamples,
		Args:    o.checkArguments,
		RunE: func(command *cobra.Command, args []string) error {
			switch ctx := command.Context(); {
			case o.finish:
				return o.runFinish(ctx)
			case o.abort:
				return o.runAbort(ctx)
			default:
				return o.run(ctx, args[0])
			}
		},
	}
	o.AddTo(command)
	flags := command.Flags()
	flags.StringArrayVarP(&o.identities, "identity", "i", nil, "File with the age identity of a recipient, or - for standard input; can be repeated")
	flags.BoolVar(&o.dryRun, "dry-run", false, "Only show what would be done. The API server checks every object")
	flags.BoolVar(&o.finish, "finish", false, "Reject the restored client secrets from now on, except those that are in a credentials Secret or in a spec")
	flags.BoolVar(&o.abort, "abort", false, "Release the leader Lease of a restore that was killed, so that the operator continues")
	flags.BoolVar(&o.replace, "replace", false, "Also restore realms that are in use, and what was restored from this or a newer backup before. Secrets that ended since then are accepted again")
	flags.StringVar(&o.realm, "realm", "", "Restore or finish this realm and its clients only")
	flags.StringVar(&o.serviceURL, "service-url", "", "Base URL of the token service of this cluster, such as https://api.example.com, if it cannot be read from the cluster")
	flags.StringVar(&o.systemNamespace, "system-namespace", "", "Namespace of the operator. Defaults to that of the installation in the cluster")
	addRecordsNamespace(command, &o.recordsNamespace)
	cluster.CompleteFlag(command, "realm", o.CompleteNames(cluster.KindRealm))
	return command
}

func (o *restoreOptions) checkArguments(_ *cobra.Command, args []string) error {
	switch {
	case o.finish && o.abort:
		return fmt.Errorf("%w: use either --finish or --abort", output.ErrUsage)
	case (o.finish || o.abort) && (len(args) > 0 || len(o.identities) > 0 || o.replace):
		return fmt.Errorf("%w: --finish and --abort take no backup, --identity, or --replace", output.ErrUsage)
	case o.abort && (o.dryRun || o.realm != ""):
		return fmt.Errorf("%w: --abort takes no --dry-run or --realm", output.ErrUsage)
	case o.finish || o.abort:
		return nil
	case len(args) != 1:
		return fmt.Errorf("%w: specify one backup file, or - for standard input; got %d arguments", output.ErrUsage, len(args))
	case len(o.identities) == 0:
		return fmt.Errorf("%w: set --identity to the identity file of a recipient of the backup", output.ErrUsage)
	}
	return nil
}

// run checks the backup completely before it connects to the cluster.
func (o *restoreOptions) run(ctx context.Context, path string) error {
	source, closeSource, err := o.open(path)
	if err != nil {
		return err
	}
	defer closeSource()
	contents, err := source.Check()
	if err != nil {
		return err
	}
	r, err := o.newRestore(ctx)
	if err != nil {
		return err
	}
	r.Source, r.Contents = source, contents
	do := r.Run
	if o.dryRun {
		do = r.Check
	}
	report, err := do(ctx)
	if err != nil {
		if described := cluster.DescribeError(err, ""); errors.Is(described, cluster.ErrNotInstalled) {
			return described
		}
		return err
	}
	if err := o.Print(restoreReport{Report: report, DryRun: o.dryRun, realm: o.realm}); err != nil {
		return err
	}
	if n := report.Problems(); n > 0 {
		return fmt.Errorf("%w: %s a problem; correct the causes that the report names, and run the same command again", ErrSkipped, output.Number(n, "ApiClient")+output.Has(n))
	}
	return nil
}

// ErrSkipped makes the process exit with exitSkipped.
var ErrSkipped = errors.New("not everything can be restored")

// newRestore connects to the cluster.
func (o *restoreOptions) newRestore(ctx context.Context) (*restore.Restore, error) {
	c, err := o.Connect()
	if err != nil {
		return nil, err
	}
	inst, err := c.FindInstallation(ctx, o.recordsNamespace, o.serviceURL)
	if err != nil {
		return nil, err
	}
	system := cmp.Or(o.systemNamespace, inst.SystemNamespace)
	if system == "" {
		return nil, fmt.Errorf("%w: ClusterRoleBinding %s does not name the namespace of the operator; set --system-namespace", cluster.ErrNoInstance, cluster.InstanceBinding)
	}
	return &restore.Restore{
		Client: c, SystemNamespace: system, RecordsNamespace: inst.RecordsNamespace, ServiceURL: inst.ServiceURL,
		Realm: o.realm, Replace: o.replace, Now: c.Clock.Now, Progress: func(text string) { o.Progress("%s", text) },
	}, nil
}

// open opens the backup. Standard input is copied to a temporary file, which stays encrypted.
func (o *restoreOptions) open(path string) (*backup.Source, func(), error) {
	s := &backup.Source{}
	for _, name := range o.identities {
		identities, err := o.readIdentities(name, path)
		if err != nil {
			return nil, nil, err
		}
		s.Identities = append(s.Identities, identities...)
	}
	if path != output.Stdio {
		file, err := os.Open(path)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the backup: %w", err)
		}
		s.File = file
		return s, func() { _ = file.Close() }, nil
	}
	file, err := os.CreateTemp("", "realmkeeper-*.backup")
	if err != nil {
		return nil, nil, fmt.Errorf("reading the backup from standard input: %w", err)
	}
	remove := func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}
	if _, err = io.Copy(file, o.Streams.In); err != nil {
		remove()
		return nil, nil, fmt.Errorf("reading the backup from standard input: %w", err)
	}
	s.File = file
	return s, remove, nil
}

func (o *restoreOptions) readIdentities(name, backupPath string) ([]age.Identity, error) {
	if name == output.Stdio {
		if backupPath == output.Stdio {
			return nil, fmt.Errorf("%w: only one of --identity and the backup can be read from standard input", output.ErrUsage)
		}
		return backup.ParseIdentities(o.Streams.In)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading the identity file: %w", err)
	}
	defer file.Close()
	identities, err := backup.ParseIdentities(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, name)
	}
	return identities, nil
}

func (o *restoreOptions) runFinish(ctx context.Context) error {
	r, err := o.newRestore(ctx)
	if err != nil {
		return err
	}
	finished, err := r.Finish(ctx, o.dryRun)
	// After an error, the report shows what was done until then.
	if printed := o.Print(finishReport{DryRun: o.dryRun, Clients: finished}); err == nil {
		err = printed
	}
	return err
}

func (o *restoreOptions) runAbort(ctx context.Context) error {
	r, err := o.newRestore(ctx)
	if err != nil {
		return err
	}
	aborted, err := r.Abort(ctx)
	if err != nil {
		return err
	}
	return o.Print(abortReport{aborted})
}

// restoreReport is the report of restore.
type restoreReport struct {
	*restore.Report

	DryRun bool `json:"dryRun,omitempty"`

	realm string // of --realm
}

// dataText describes the keys or secrets of an object.
func dataText(o *restore.Object) string {
	thing := "secret"
	if o.Kind == cluster.KindRealm {
		thing = "key"
	}
	switch o.Data {
	case restore.Restored:
		return output.Number(o.Count, thing) + " restored"
	case restore.Added:
		return output.Number(o.Count, thing) + " added"
	case restore.Unchanged:
		return "unchanged"
	case restore.NotRestored:
		return "not restored"
	}
	return "none in the backup"
}

func (r restoreReport) Text(w *terminal.Writer) {
	var rows []terminal.Row
	var problems, omitted, credentials []string
	accepting := false
	for _, o := range r.Objects {
		color := terminal.Plain
		switch {
		case o.Problem != "":
			color = terminal.Red
			problems = append(problems, o.String()+": "+o.Problem)
		case o.Result == restore.Differs:
			color = terminal.Yellow
		}
		rows = append(rows, terminal.Row{Color: color, Cells: []string{o.Kind, o.String(), string(o.Result), dataText(o)}})
		accepting = accepting || o.Kind == cluster.KindClient && o.Count > 0 && (o.Data == restore.Restored || o.Data == restore.Added)
		if len(o.Omitted) > 0 {
			omitted = append(omitted, o.String()+": "+strings.Join(o.Omitted, ", "))
		}
		if o.Credentials != "" {
			credentials = append(credentials, o.Namespace+"/"+o.Credentials)
		}
	}
	title := "Backup of " + timestamp.Format(r.BackupTime)
	if r.DryRun {
		title += " (dry run, nothing was written)"
	}
	w.Paragraph(0, terminal.Bold, title)
	w.Table([]string{"KIND", "NAME", "OBJECT", "KEYS OR SECRETS"}, rows)
	output.Named(w, terminal.Yellow, fmt.Sprintf("A client accepts at most %d secrets of a backup. These older ones are not restored:", record.MaxRestoredSecrets), omitted)
	output.Named(w, terminal.Plain, "Credentials Secrets that belong to their ApiClient again:", credentials)
	if len(problems) > 0 {
		w.Heading("PROBLEMS")
		for _, problem := range problems {
			w.Paragraph(2, terminal.Red, problem)
		}
	}
	if accepting && !r.DryRun {
		r.next(w)
	}
}

// next says what ends a restore.
func (r restoreReport) next(w *terminal.Writer) {
	finish := "kubectl realmkeeper restore --finish"
	if r.realm != "" {
		finish += " --realm " + untrusted.Quote(r.realm)
	}
	w.Heading("NEXT")
	w.Paragraph(2, terminal.Plain, "The operator continues now. The restored secrets are accepted until you run this command. Run it after all workloads use the secret in their credentials Secret:")
	w.Commands(4, []string{finish})
}

// finishReport is the report of restore --finish.
type finishReport struct {
	DryRun  bool               `json:"dryRun,omitempty"`
	Clients []restore.Finished `json:"clients"`
}

func (r finishReport) Text(w *terminal.Writer) {
	if len(r.Clients) == 0 {
		w.Paragraph(0, terminal.Plain, "No client accepts secrets of a backup.")
		return
	}
	var rows []terminal.Row
	for _, c := range r.Clients {
		rows = append(rows, terminal.Row{Cells: []string{c.Namespace + "/" + c.Name, strings.Join(c.Secrets, ", ")}})
	}
	if r.DryRun {
		w.Paragraph(0, terminal.Bold, "Dry run, nothing was changed")
	}
	w.Table([]string{"APICLIENT", "REJECTED SECRETS"}, rows)
	if !r.DryRun {
		w.Paragraph(0, terminal.Plain, "Secrets in a credentials Secret or in a spec are still accepted.")
	}
}

// abortReport is the report of restore --abort.
type abortReport struct {
	*restore.Aborted
}

func (r abortReport) Text(w *terminal.Writer) {
	if r.Aborted == nil {
		w.Paragraph(0, terminal.Plain, "No restore holds the leader Lease.")
		return
	}
	w.Paragraph(0, terminal.Plain, fmt.Sprintf("Released the leader Lease of %s. The operator continues.", &r.Restore))
	w.Paragraph(0, terminal.Plain, fmt.Sprintf("The restore had written %s. What it has written stays. To complete it, run it again.", output.Number(r.Records, "record")))
}
