// Command token-agent keeps a file with an access token fresh.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	_ "golang.org/x/crypto/x509roots/fallback" // The image contains no certificate authorities.

	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/tools/tokenagent"
)

const help = `realmkeeper token-agent %s

Keeps a file with an access token fresh, for programs that read a bearer token from a file. It authenticates
with the files of a credentials Secret, or with the service account token of the Pod.

Usage:
  token-agent --output FILE --credentials-dir DIRECTORY [flags]
  token-agent --output FILE --service-account-token-file FILE --token-url URL [flags]
  token-agent once [flags]         Write the file once, and exit
  token-agent check --output FILE  Exit with 0 if the file has a token that has not expired, and otherwise with 1

Flags:
`

// The verbs. Without one, the agent runs until it gets a signal.
const (
	verbOnce  = "once"
	verbCheck = "check"
)

type options struct {
	verb           string
	client         tokenagent.Client
	file           tokenagent.File
	keepExpired    bool
	timeout        time.Duration
	metricsAddress string
}

func main() {
	o, err := parse(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "realmkeeper token-agent: %v; see --help\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "realmkeeper token-agent:", printable(err.Error()))
		os.Exit(1)
	}
}

// printable replaces what would not be on one line, because servers choose parts of errors.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

var errUsage = errors.New("invalid arguments")

// parse parses the arguments. If the user requests help, it writes the help to the writer and returns
// flag.ErrHelp.
func parse(args []string, to io.Writer) (options, error) {
	o := options{file: tokenagent.File{Mode: 0o640, Format: tokenagent.FormatToken}}
	if len(args) > 0 && (args[0] == verbOnce || args[0] == verbCheck) {
		o.verb, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("token-agent", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // on error, print one line instead of the usage
	flags.StringVar(&o.file.Path, "output", "", "Path of the `file` with the token. Its directory must be writable, and should be in memory (required)")
	flags.StringVar(&o.client.CredentialsDir, "credentials-dir", "", "`Directory` where a credentials Secret is mounted")
	flags.StringVar(&o.client.ServiceAccountTokenFile, "service-account-token-file", "", "Path of the `file` with a projected service account token whose audience is the issuer of the realm. Instead of --credentials-dir")
	flags.StringVar(&o.client.ClientID, "client-id", "", "Client `ID` to authenticate as with a service account token. Defaults to the client that holds the service account")
	flags.StringVar(&o.client.TokenURL, "token-url", "", "`URL` of the token endpoint. Defaults to cluster_token_url in --credentials-dir, then to token_url")
	flags.StringVar(&o.client.CAFile, "ca-file", "", "Path of the PEM `file` with the certificate authorities to trust. Defaults to ca.crt in --credentials-dir, then to public ones")
	flags.StringVar(&o.client.Scope, "scope", "", "`Scopes` to request, separated by spaces. Defaults to all scopes of the client")
	flags.StringVar(&o.client.Audience, "audience", "", "`Audiences` to request, separated by spaces. Defaults to all audiences of the client")
	flags.Func("format", "`Format` of the file: token, envoy-sds, or exec-credential. Defaults to token", func(value string) (err error) {
		o.file.Format, err = tokenagent.ParseFormat(value)
		return err
	})
	flags.Func("mode", "Permissions of the file in octal `digits`. Defaults to 0640", func(value string) error {
		mode, err := strconv.ParseUint(value, 8, 32)
		if err != nil || mode > uint64(fs.ModePerm) {
			return errMode
		}
		o.file.Mode = fs.FileMode(mode)
		return nil
	})
	flags.BoolVar(&o.keepExpired, "keep-expired", false, "Do not remove the file when its token expires, for readers that do not notice a new file afterwards")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "Time for which once tries again after failures")
	flags.StringVar(&o.metricsAddress, "metrics-address", "", "Listen `address` of /metrics, such as :8081. Serves HTTP. If empty, there are no metrics")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(to, help, version.String())
			flags.SetOutput(to)
			flags.PrintDefaults()
		}
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("%w: unexpected argument %q", errUsage, flags.Arg(0))
	}
	if err := o.validate(); err != nil {
		return options{}, err
	}
	return o, nil
}

var errMode = errors.New("it must be octal digits such as 0640")

func (o *options) validate() error {
	withSecret, withToken := o.client.CredentialsDir != "", o.client.ServiceAccountTokenFile != ""
	switch {
	case o.file.Path == "":
		return fmt.Errorf("%w: --output is required", errUsage)
	case o.verb == verbCheck:
		return nil
	case withSecret == withToken:
		return fmt.Errorf("%w: one of --credentials-dir and --service-account-token-file is required", errUsage)
	case withToken && o.client.TokenURL == "":
		return fmt.Errorf("%w: --service-account-token-file requires --token-url", errUsage)
	case withSecret && o.client.ClientID != "":
		return fmt.Errorf("%w: --client-id requires --service-account-token-file", errUsage)
	case o.timeout <= 0:
		return fmt.Errorf("%w: --timeout must be positive", errUsage)
	}
	if o.client.TokenURL == "" {
		return nil
	}
	if err := tokenagent.CheckTokenURL(o.client.TokenURL); err != nil {
		return fmt.Errorf("%w: --token-url: %w", errUsage, err)
	}
	return nil
}
