// Command portal is the web portal in which people manage API credentials.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/version"
)

const usage = `realmkeeper portal %s

Serves the web portal, in which people manage API credentials. It acts with the token of
the person who is signed in and has no rights itself: Kubernetes decides what they may do.
It stores nothing; sessions are sealed cookies, which every replica with the same key opens.

Usage:
  portal --session-key-file FILE [flags]

Flags:
`

type options struct {
	listen            string
	operationsListen  string
	certFile, keyFile string
	apiServer         string
	apiServerCAFile   string
	sessionKeyFile    string
	initialAdmin      string
	publicURL         string
	oidc              oidcOptions
	debug             bool
}

type oidcOptions struct {
	issuerURL        string
	clientID         string
	clientSecretFile string
	caFile           string
	scopes           string
}

func main() {
	o, err := parse(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "realmkeeper portal: %v; see --help\n", err)
		os.Exit(2)
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "realmkeeper portal:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("bad flag")

// parse reads the flags; asked for help it writes it to help and returns flag.ErrHelp.
func parse(args []string, help io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("portal", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // one line tells an error; help is for who asks
	flags.StringVar(&o.listen, "listen", ":8443", "the `address` of the portal; HTTPS with --tls-cert-file, otherwise HTTP for a proxy that ends TLS")
	flags.StringVar(&o.operationsListen, "operations-listen", ":8080", "the `address` of /healthz and /readyz, plain HTTP; never make it public")
	flags.StringVar(&o.certFile, "tls-cert-file", "", "the serving certificate, a PEM `file`; taken up when it changes")
	flags.StringVar(&o.keyFile, "tls-key-file", "", "the key of the serving certificate, a PEM `file`")
	flags.StringVar(&o.apiServer, "api-server", inCluster(), "the `URL` of the API server; default: that of the cluster in which the portal runs")
	flags.StringVar(&o.apiServerCAFile, "api-server-ca-file", "", "the authority of the API server's certificate, a PEM `file`; default: those of the system")
	flags.StringVar(&o.sessionKeyFile, "session-key-file", "", "the key that seals sessions, a `file` of at least 32 random bytes, the same for all replicas (required)")
	flags.StringVar(&o.initialAdmin, "initial-admin", "", "the service account as `namespace/name` for which the sign-in page says how to get a token")
	flags.StringVar(&o.publicURL, "public-url", "", "the `URL` under which browsers reach the portal, such as https://portal.example.com; required with --oidc-issuer-url")
	flags.StringVar(&o.oidc.issuerURL, "oidc-issuer-url", "", "the `URL` of an OpenID Connect issuer that the API server trusts; empty: people sign in with a token of Kubernetes")
	flags.StringVar(&o.oidc.clientID, "oidc-client-id", "", "the `client` that the API server takes for the audience of that issuer's tokens")
	flags.StringVar(&o.oidc.clientSecretFile, "oidc-client-secret-file", "", "the secret of that client, a `file`; empty: it is a public client")
	flags.StringVar(&o.oidc.caFile, "oidc-ca-file", "", "the authority of the issuer's certificate, a PEM `file`; default: those of the system")
	flags.StringVar(&o.oidc.scopes, "oidc-scopes", "profile email", "the `scopes` to ask for besides openid, such as those that give the claims which the API server reads")
	flags.BoolVar(&o.debug, "debug", false, "log at debug level; secrets and tokens are logged at no level")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(help, usage, version.String())
			flags.SetOutput(help)
			flags.PrintDefaults()
		}
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("%w: unexpected argument %q", errUsage, flags.Arg(0))
	}
	return o, o.complete()
}

// inCluster returns the URL of the API server by the environment of a pod.
func inCluster() string {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, port)
}

// complete checks how the flags go together.
func (o options) complete() error {
	switch {
	case o.sessionKeyFile == "":
		return fmt.Errorf("%w: --session-key-file is required", errUsage)
	case o.apiServer == "":
		return fmt.Errorf("%w: --api-server is required outside a cluster", errUsage)
	case (o.certFile == "") != (o.keyFile == ""):
		return fmt.Errorf("%w: --tls-cert-file and --tls-key-file go together", errUsage)
	case o.initialAdmin != "" && strings.Count(o.initialAdmin, "/") != 1:
		return fmt.Errorf("%w: --initial-admin must be namespace/name, not %q", errUsage, o.initialAdmin)
	}
	for name, value := range map[string]string{"api-server": o.apiServer, "oidc-issuer-url": o.oidc.issuerURL} {
		if value != "" && !strings.HasPrefix(value, "https://") {
			return fmt.Errorf("%w: --%s must be an https URL, for tokens go there", errUsage, name)
		}
	}
	return o.completeProvider()
}

// completeProvider checks the flags of the identity provider.
func (o options) completeProvider() error {
	switch {
	case o.oidc.issuerURL == "" && o.oidc.clientID != "":
		return fmt.Errorf("%w: --oidc-client-id needs --oidc-issuer-url", errUsage)
	case o.oidc.issuerURL != "" && o.oidc.clientID == "":
		return fmt.Errorf("%w: --oidc-client-id is required with --oidc-issuer-url", errUsage)
	case o.oidc.issuerURL != "" && o.publicURL == "":
		return fmt.Errorf("%w: --public-url is required with --oidc-issuer-url", errUsage)
	}
	public, err := url.Parse(o.publicURL)
	if err != nil || o.publicURL != "" && (public.Host == "" || public.Path != "" && public.Path != "/") {
		return fmt.Errorf("%w: --public-url must be a URL without a path, not %q", errUsage, o.publicURL)
	}
	return nil
}
