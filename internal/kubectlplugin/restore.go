package kubectlplugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/realmkeeper/realmkeeper/internal/backup"
)

const restoreUsage = `Restore the realms and clients of a backup, so that the same client secrets and tokens are accepted
as before. Missing Realms and ApiClients are created. Existing ones keep their spec, keys, and
secrets. The operator adopts the signing keys, the identities of clients, and the hashes of client
secrets.

The whole backup is checked before anything is written. If a restore stops halfway, run it again.

Restored client secrets are accepted, even without a credentials Secret, until you run
"kubectl realmkeeper restore --finish". They are not restored again from the same or an older
backup, unless you use --again.`

const restoreExamples = `  # Show what would be done
  kubectl realmkeeper restore --identity identity.txt realmkeeper.backup --dry-run

  # Restore, and wait until the operator has adopted everything
  kubectl realmkeeper restore --identity identity.txt realmkeeper.backup --wait

  # After all workloads use the secret in their credentials Secret: reject the restored secrets
  kubectl realmkeeper restore --finish`

// restoreOptions are the arguments of the restore subcommand.
type restoreOptions struct {
	*clusterOptions

	identities       []string
	dryRun           bool
	finish           bool
	force            bool
	again            bool
	wait             bool
	timeout          time.Duration
	realm            string
	recordsNamespace string
	serviceURL       string
}

func newRestoreCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &restoreOptions{clusterOptions: newClusterOptions(streams)}
	command := &cobra.Command{
		Use:     "restore (--identity FILE BACKUP | --finish)",
		Short:   "Restore realms, clients, and their keys from a backup",
		Long:    restoreUsage,
		Example: restoreExamples,
		Args:    o.checkArguments,
		RunE: func(command *cobra.Command, args []string) error {
			if o.finish {
				return o.runFinish(command.Context())
			}
			return o.run(command.Context(), args[0])
		},
	}
	o.addTo(command)
	flags := command.Flags()
	flags.StringArrayVarP(&o.identities, "identity", "i", nil, "File with the age identity of a recipient, or - for standard input; can be repeated")
	flags.BoolVar(&o.dryRun, "dry-run", false, "Only show what would be done. The API server checks every object")
	flags.BoolVar(&o.finish, "finish", false, "Reject the restored client secrets from now on, except those that are in a credentials Secret or in a spec")
	flags.BoolVar(&o.force, "force", false, "With --finish, also discard what the operator has not adopted")
	flags.BoolVar(&o.again, "again", false, "Also restore what was restored from this or a newer backup before. Secrets that ended since then are accepted again")
	flags.BoolVar(&o.wait, "wait", false, "Wait until the operator has adopted everything")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "How long to wait")
	flags.StringVar(&o.realm, "realm", "", "Restore or finish this realm and its clients only")
	flags.StringVar(&o.serviceURL, "service-url", "", "Base URL of the token service of this cluster, such as https://api.example.com, if it cannot be read from the cluster")
	addRecordsNamespace(command, &o.recordsNamespace)
	must(command.RegisterFlagCompletionFunc("realm", o.completeNames(kindRealm)))
	return command
}

func (o *restoreOptions) checkArguments(_ *cobra.Command, args []string) error {
	switch {
	case o.finish && (len(args) > 0 || len(o.identities) > 0 || o.wait || o.again):
		return fmt.Errorf("%w: --finish takes no backup, --identity, --wait, or --again", errUsage)
	case o.finish:
		return nil
	case o.force:
		return fmt.Errorf("%w: --force can only be used with --finish", errUsage)
	case o.dryRun && o.wait:
		return fmt.Errorf("%w: --wait cannot be used with --dry-run", errUsage)
	case len(args) != 1:
		return fmt.Errorf("%w: specify one backup file, or - for standard input; got %d arguments", errUsage, len(args))
	case len(o.identities) == 0:
		return fmt.Errorf("%w: set --identity to the identity file of a recipient of the backup", errUsage)
	}
	return nil
}

// run checks the backup completely before it connects to the cluster.
func (o *restoreOptions) run(ctx context.Context, path string) error {
	source, err := o.open(path)
	if err != nil {
		return err
	}
	defer source.close()
	reader, err := source.read()
	if err != nil {
		return err
	}
	contents, err := backup.Check(reader)
	if err != nil {
		return err
	}
	c, err := o.connect()
	if err != nil {
		return err
	}
	inst, err := c.installation(ctx, o.recordsNamespace, o.serviceURL)
	if err != nil {
		return err
	}
	return o.restore(ctx, c, inst, source, contents)
}

var (
	errOtherService   = errors.New("the backup belongs to another token service")
	errUnknownService = errors.New("the base URL of the token service is unknown")
)

// checkServiceURLs returns the realms of a backup that this cluster can't restore, because their
// issuers would change. A realm with an old issuer is restored if the cluster of the backup had the same
// service URL as this one. It is an error if no realm can be restored.
func checkServiceURLs(current string, contents *backup.Contents, only string) (rejected map[string]error, err error) {
	rejected = map[string]error{}
	accepted := 0
	for _, realm := range slices.Sorted(maps.Keys(contents.ServiceURLs)) {
		url := contents.ServiceURLs[realm]
		switch {
		case only != "" && only != realm:
		case current == "":
			return nil, fmt.Errorf("%w, because no Realm exists and ConfigMap %s cannot be read; if this cluster serves %s, set --service-url %s", errUnknownService, instanceConfig, url, url)
		case url == current || contents.Header.ServiceURL == current:
			accepted++
		default:
			rejected[realm] = fmt.Errorf("%w: the issuer of Realm %s starts with %s, and those of this cluster with %s; configure the same instanceDomain and externalPort, and restore again", errOtherService, realm, url, current)
			err = cmp.Or(err, rejected[realm])
		}
	}
	if accepted > 0 {
		err = nil
	}
	return rejected, err
}

// backupSource is a backup that can be read several times.
type backupSource struct {
	file       *os.File
	temporary  bool
	identities []age.Identity
}

// open opens the backup. Standard input is copied to a temporary file, which stays encrypted.
func (o *restoreOptions) open(path string) (*backupSource, error) {
	s := &backupSource{}
	for _, name := range o.identities {
		identities, err := o.readIdentities(name, path)
		if err != nil {
			return nil, err
		}
		s.identities = append(s.identities, identities...)
	}
	var err error
	if path != stdio {
		if s.file, err = os.Open(path); err != nil {
			return nil, fmt.Errorf("reading the backup: %w", err)
		}
		return s, nil
	}
	s.temporary = true
	if s.file, err = os.CreateTemp("", "realmkeeper-*.backup"); err == nil {
		_, err = io.Copy(s.file, o.streams.In)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("reading the backup from standard input: %w", err)
	}
	return s, nil
}

func (o *restoreOptions) readIdentities(name, backupPath string) ([]age.Identity, error) {
	if name == stdio {
		if backupPath == stdio {
			return nil, fmt.Errorf("%w: only one of --identity and the backup can be read from standard input", errUsage)
		}
		return backup.ParseIdentities(o.streams.In)
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

// read reads the backup from its start.
func (s *backupSource) read() (*backup.Reader, error) {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the backup: %w; pass it on standard input, with the file name -", err)
	}
	return backup.NewReader(s.file, s.identities...)
}

// each calls visit for every entry of some kinds.
func (s *backupSource) each(visit func(*backup.Entry) error, kinds ...backup.Kind) error {
	r, err := s.read()
	if err != nil {
		return err
	}
	for {
		entry, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if slices.Contains(kinds, entry.Kind) {
			if err := visit(&entry); err != nil {
				return err
			}
		}
	}
}

func (s *backupSource) close() {
	if s.file == nil {
		return
	}
	_ = s.file.Close()
	if s.temporary {
		_ = os.Remove(s.file.Name())
	}
}
