package provision

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

const hashUsage = `Generate a client secret and print its hash for the spec of an ApiClient. The cluster stores only
the hash, never the secret.

The hash is written to standard output as YAML that you can commit. The secret is printed once to
standard error, or written to a file with --secret-file. Save it in your secret manager. With
--stdin, an existing secret is read from standard input and not printed. No cluster access is
needed.`

const hashExamples = `  # Write a new secret to one file and its hash to another
  kubectl realmkeeper hash --id 2026-03 --secret-file secret.txt > hash.yaml

  # Hash an existing secret
  vault kv get -field=secret billing | kubectl realmkeeper hash --stdin`

// hashOptions are the arguments of the hash subcommand.
type hashOptions struct {
	id         string
	stdin      bool
	secretFile string
}

func newHashCommand(streams output.Streams) *cobra.Command {
	var o hashOptions
	command := &cobra.Command{
		Use:     "hash",
		Short:   "Print the hash of a new or existing client secret",
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
	flags.StringVar(&o.id, "id", "", "ID of the secret in status and audit events. Defaults to an ID derived from the hash")
	flags.BoolVar(&o.stdin, "stdin", false, "Read the secret from standard input, up to the end and without one trailing line break")
	flags.StringVar(&o.secretFile, "secret-file", "", "Write the secret to this file instead of printing it. The file must not exist and is created with mode 0600")
	return command
}

var validID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// complete validates the options.
func (o *hashOptions) complete() error {
	if o.id != "" && !validID.MatchString(o.id) {
		return fmt.Errorf("%w: --id must be 1 to 64 letters, digits, dots, underscores or hyphens, got %q", output.ErrUsage, o.id)
	}
	if o.stdin && o.secretFile != "" {
		return fmt.Errorf("%w: --secret-file cannot be used with --stdin", output.ErrUsage)
	}
	return nil
}

func (o *hashOptions) run(streams output.Streams, random io.Reader) error {
	secret, err := o.secret(streams, random)
	if err != nil {
		return err
	}
	hashed, err := hashSecret(secret, o.id, random)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(streams.Out, "spec:\n  secret:\n    hashed:\n    - id: %q\n      hash: %q\n", hashed.ID, hashed.Hash)
	return err
}

// hashSecret returns an entry of spec.secret.hashed. If id is empty, it is derived from the hash.
func hashSecret(secret, id string, random io.Reader) (v1beta1.HashedSecret, error) {
	hash := clientsecret.HashArgon2id
	if clientsecret.WellFormed(secret) {
		hash = clientsecret.Hash // 256 random bits need no slow hash
	}
	verifier, err := hash(secret, random)
	if err != nil {
		return v1beta1.HashedSecret{}, err
	}
	return v1beta1.HashedSecret{ID: cmp.Or(id, verifier.ID()), Hash: verifier.String()}, nil
}

// secret reads the secret from standard input, or generates one and prints or saves it.
func (o *hashOptions) secret(streams output.Streams, random io.Reader) (string, error) {
	if o.stdin {
		// The limit is well above the longest valid secret. It avoids reading a large file
		// completely.
		read, err := io.ReadAll(io.LimitReader(streams.In, 8*clientsecret.MaxChosenLength))
		if err != nil {
			return "", fmt.Errorf("reading the secret from standard input: %w", err)
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
	return secret, showSecret(streams.ErrOut, secret)
}

func showSecret(out io.Writer, secret string) error {
	_, err := fmt.Fprintf(out, "Client secret (shown only once):\n%s\n", secret)
	return err
}

// writeNew creates a file that only its owner can read. It fails if the file exists.
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
