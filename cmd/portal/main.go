// Command portal runs the web portal for managing API credentials.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
	"github.com/realmkeeper/realmkeeper/internal/serve/source"
)

const usage = `realmkeeper portal %s

Serves the web portal for managing API credentials. The portal uses the signed-in user's
Kubernetes token and has no permissions of its own. It stores no data. Sessions
are kept in encrypted cookies, which all replicas with the same key accept.

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
	idleTimeout       time.Duration
	staleAfter        time.Duration
	initialAdmin      string
	publicURL         string
	trustedProxies    []netip.Prefix
	proxyProtocolFrom []netip.Prefix
	passthrough       []netip.Prefix
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

var errUsage = errors.New("invalid arguments")

// parse parses the flags. If the user requests help, it writes the usage to help and returns
// flag.ErrHelp.
func parse(args []string, help io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("portal", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // print a one-line error instead of the usage
	flags.StringVar(&o.listen, "listen", ":8443", "Listen `address` of the portal. Serves HTTPS with --tls-cert-file, otherwise HTTP for a TLS-terminating proxy")
	flags.StringVar(&o.operationsListen, "operations-listen", ":8080", "Listen `address` of /healthz, /readyz, and /metrics. Serves HTTP and must not be public")
	flags.StringVar(&o.certFile, "tls-cert-file", "", "Path of the PEM `file` with the serving certificate. Reloaded when it changes")
	flags.StringVar(&o.keyFile, "tls-key-file", "", "Path of the PEM `file` with the private key of the serving certificate")
	flags.StringVar(&o.apiServer, "api-server", inCluster(), "`URL` of the Kubernetes API server. Defaults to the API server of the cluster that runs the portal")
	flags.StringVar(&o.apiServerCAFile, "api-server-ca-file", "", "Path of the PEM `file` with the certificate authority of the API server. Defaults to the system roots, or to Mozilla's list if the system has none")
	flags.StringVar(&o.sessionKeyFile, "session-key-file", "", "Path of the `file` with the session encryption key, at least 32 random bytes and the same for all replicas (required)")
	flags.DurationVar(&o.idleTimeout, "idle-timeout", access.DefaultIdleTimeout, "Time without use after which a session expires, at least 5m and at most 12h")
	flags.DurationVar(&o.staleAfter, "stale-after", portal.DefaultStaleAfter, "How long a credential must have been unused to be shown as unused, at least 1h")
	flags.StringVar(&o.initialAdmin, "initial-admin", "", "Service account as `namespace/name` in the token command on the sign-in page")
	flags.Func("proxy-protocol-from", "Comma-separated `CIDRs` of load balancers whose connections begin with a PROXY protocol header, version 1 or 2. Connections from them without the header are closed", source.Into(&o.proxyProtocolFrom))
	flags.Func("passthrough-proxies", "Comma-separated `CIDRs` of proxies that pass TLS through and hide the source address. The limit of connections for each source does not apply to them", source.Into(&o.passthrough))
	flags.StringVar(&o.publicURL, "public-url", "", "Public `URL` of the portal, such as https://portal.example.com. Required with --oidc-issuer-url")
	flags.StringVar(&o.oidc.issuerURL, "oidc-issuer-url", "", "`URL` of an OpenID Connect issuer that the API server trusts. If empty, users sign in with a Kubernetes token")
	flags.StringVar(&o.oidc.clientID, "oidc-client-id", "", "ID of the `client` at the issuer. The API server must accept it as the token audience")
	flags.StringVar(&o.oidc.clientSecretFile, "oidc-client-secret-file", "", "Path of the `file` with the client secret. If empty, the client is a public client")
	flags.StringVar(&o.oidc.caFile, "oidc-ca-file", "", "Path of the PEM `file` with the certificate authority of the issuer. Defaults to the system roots, or to Mozilla's list if the system has none")
	flags.StringVar(&o.oidc.scopes, "oidc-scopes", "profile email", "Space-separated `scopes` to request in addition to openid, such as scopes for the claims that the API server uses")
	flags.Func("trusted-proxies", "Comma-separated `CIDRs` of TLS-terminating proxies whose X-Forwarded-For is trusted, such as 10.0.0.0/8,fd00::/8", source.Into(&o.trustedProxies))
	flags.BoolVar(&o.debug, "debug", false, "Log at debug level. Secrets and tokens are never logged")
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
	if err := source.Disjoint(o.passthrough, o.proxyProtocolFrom); err != nil {
		return options{}, fmt.Errorf("%w: a network of --passthrough-proxies hides the source, so it must not be in --proxy-protocol-from: %w", errUsage, err)
	}
	return o, o.complete()
}

// inCluster returns the API server URL from the Pod's environment. It returns an empty string
// outside a cluster.
func inCluster() string {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, port)
}

// complete validates the flags.
func (o options) complete() error {
	switch {
	case o.sessionKeyFile == "":
		return fmt.Errorf("%w: --session-key-file is required", errUsage)
	case o.apiServer == "":
		return fmt.Errorf("%w: --api-server is required outside a cluster", errUsage)
	case (o.certFile == "") != (o.keyFile == ""):
		return fmt.Errorf("%w: --tls-cert-file and --tls-key-file must be set together", errUsage)
	case o.staleAfter < time.Hour:
		return fmt.Errorf("%w: --stale-after must be at least 1h, got %s", errUsage, o.staleAfter)
	case o.initialAdmin != "" && strings.Count(o.initialAdmin, "/") != 1:
		return fmt.Errorf("%w: --initial-admin must be namespace/name, got %q", errUsage, o.initialAdmin)
	}
	for name, value := range map[string]string{"api-server": o.apiServer, "oidc-issuer-url": o.oidc.issuerURL} {
		if value != "" && !strings.HasPrefix(value, "https://") {
			return fmt.Errorf("%w: --%s must be an https URL because tokens are sent to it", errUsage, name)
		}
	}
	return o.completeProvider()
}

// completeProvider validates the flags of the identity provider.
func (o options) completeProvider() error {
	switch {
	case o.oidc.issuerURL == "" && o.oidc.clientID != "":
		return fmt.Errorf("%w: --oidc-client-id requires --oidc-issuer-url", errUsage)
	case o.oidc.issuerURL != "" && o.oidc.clientID == "":
		return fmt.Errorf("%w: --oidc-client-id is required with --oidc-issuer-url", errUsage)
	case o.oidc.issuerURL != "" && o.publicURL == "":
		return fmt.Errorf("%w: --public-url is required with --oidc-issuer-url", errUsage)
	}
	public, err := url.Parse(o.publicURL)
	if err != nil || o.publicURL != "" && (public.Host == "" || public.Path != "" && public.Path != "/") {
		return fmt.Errorf("%w: --public-url must be a URL without a path, got %q", errUsage, o.publicURL)
	}
	return nil
}
