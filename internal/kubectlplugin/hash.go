package kubectlplugin

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
)

const hashUsage = `Make the hash of a client secret, for the spec of an ApiClient: the secret itself never
enters the cluster.

The hash goes to the standard output, as YAML that can be committed. The secret is made
here, and shown once on the error stream, or written to a file; keep it in your vault.
With --stdin it is read instead, and shown nowhere. No cluster is needed.`

const hashExamples = `  # A new secret into a file, its hash into another
  kubectl realmkeeper hash --id 2026-03 --secret-file secret.txt > hash.yaml

  # The hash of a secret that you have
  vault kv get -field=secret billing | kubectl realmkeeper hash --stdin`

// hashOptions are the arguments of the verb hash.
type hashOptions struct {
	id         string
	stdin      bool
	secretFile string
}

func newHashCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var o hashOptions
	command := &cobra.Command{
		Use:     "hash",
		Short:   "Make the hash of a client secret, for the spec of an ApiClient",
		Long:    hashUsage,
		Example: hashExamples,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			return o.run(streams, rand.Reader)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.id, "id", "", "The name of the secret in status and audit lines. Left out: one that is made of the hash.")
	flags.BoolVar(&o.stdin, "stdin", false, "Read the secret from the standard input, to its end but for one line break.")
	flags.StringVar(&o.secretFile, "secret-file", "", "Write the secret to this new file, which only you may read, instead of showing it.")
	return command
}

var validID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// complete checks how the arguments go together.
func (o *hashOptions) complete() error {
	if o.id != "" && !validID.MatchString(o.id) {
		return fmt.Errorf("%w: --id must be 1 to 64 letters, digits, dots, underscores and hyphens, not %q", errUsage, o.id)
	}
	if o.stdin && o.secretFile != "" {
		return fmt.Errorf("%w: --secret-file is for a secret that is made, and --stdin reads one", errUsage)
	}
	return nil
}

func (o *hashOptions) run(streams genericiooptions.IOStreams, random io.Reader) error {
	secret, err := o.secret(streams, random)
	if err != nil {
		return err
	}
	hash := clientsecret.HashSlowly
	if clientsecret.WellFormed(secret) {
		hash = clientsecret.Hash // 256 random bits need no slow one
	}
	verifier, err := hash(secret, random)
	if err != nil {
		return err
	}
	id := o.id
	if id == "" {
		id = verifier.ID()
	}
	_, err = fmt.Fprintf(streams.Out, "spec:\n  secret:\n    hashed:\n    - id: %q\n      hash: %q\n", id, verifier)
	return err
}

// secret reads or makes the secret, and hands out one that it made.
func (o *hashOptions) secret(streams genericiooptions.IOStreams, random io.Reader) (string, error) {
	if o.stdin {
		// Far beyond the longest: a file given by mistake needn't be read to its end.
		read, err := io.ReadAll(io.LimitReader(streams.In, 8*clientsecret.LongestChosen))
		if err != nil {
			return "", fmt.Errorf("reading the secret from the standard input: %w", err)
		}
		secret := strings.TrimSuffix(strings.TrimSuffix(string(read), "\n"), "\r")
		return secret, clientsecret.CheckChosen(secret)
	}
	secret, err := clientsecret.Generate(random)
	if err != nil {
		return "", err
	}
	if o.secretFile != "" {
		return secret, writeNew(o.secretFile, secret)
	}
	_, err = fmt.Fprintf(streams.ErrOut, "The client secret, which is shown this once:\n%s\n", secret)
	return secret, err
}

// writeNew writes a file that isn't there yet, for its owner alone.
func writeNew(path, content string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("writing the secret: %w", err)
	}
	_, err = file.WriteString(content)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("writing the secret: %w", err)
	}
	return nil
}
