// Command token-server issues access tokens to authenticated clients.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver"
	"github.com/realmkeeper/realmkeeper/internal/serve/source"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clusterkeys"
)

const help = `realmkeeper token-server %s

Serves POST /<realm>/oauth2/token and the public keys and metadata of realms over HTTPS.
The token server loads records that the operator writes to Secrets in the records namespace.
If the API server is unavailable, it keeps serving the records that it has in memory. With
--snapshot-dir, it can serve them even after a restart.

Usage:
  token-server --tls-cert-file FILE --tls-key-file FILE [flags]

Flags:
`

// minUsageResolution is one hour divided by the maximum speed-up of test instances.
const minUsageResolution = time.Second

// minKMSTimeout is the minimum of --kms-timeout, as in the instance configuration.
const minKMSTimeout = 100 * time.Millisecond

type options struct {
	namespace         string
	name              string
	listen            string
	operationsListen  string
	certFile, keyFile string
	kubeconfig        string
	snapshotDir       string
	kmsSocket         string
	kmsTimeout        time.Duration
	auditLog          string
	acceptedIssuers   []clusterkeys.AcceptedIssuer
	trustedProxies    []netip.Prefix
	proxyProtocolFrom []netip.Prefix
	passthrough       []netip.Prefix
	drainDelay        time.Duration
	maxStaleness      time.Duration
	idleTimeout       time.Duration
	usageResolution   time.Duration
	reusePort         bool
	debug             bool
}

func main() {
	o, err := parse(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "realmkeeper token-server: %v; see --help\n", err)
		os.Exit(2)
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "realmkeeper token-server:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("invalid arguments")

// parse parses the flags. If the user requests help, it writes the help to the writer and returns
// flag.ErrHelp.
func parse(args []string, to io.Writer) (options, error) {
	var o options
	hostname, _ := os.Hostname() // on error, --name is required below
	flags := flag.NewFlagSet("token-server", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // on error, print one line instead of the usage
	flags.StringVar(&o.namespace, "namespace", "realmkeeper-system-records", "`Namespace` with the records and heartbeats")
	flags.StringVar(&o.name, "name", hostname, "Unique `name` of this server among the token servers of the instance. Defaults to the host name")
	flags.StringVar(&o.listen, "listen", ":8443", "Listen `address` of the public port. Serves HTTPS")
	flags.StringVar(&o.operationsListen, "operations-listen", ":8080", "Listen `address` of /healthz, /readyz, and /metrics. Serves HTTP and must not be public")
	flags.StringVar(&o.certFile, "tls-cert-file", "", "Path of the PEM `file` with the serving certificate. Reloaded when it changes (required)")
	flags.StringVar(&o.keyFile, "tls-key-file", "", "Path of the PEM `file` with the private key of the serving certificate (required)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "Path of the kubeconfig `file`. Defaults to KUBECONFIG, then to the service account of the Pod")
	flags.StringVar(&o.snapshotDir, "snapshot-dir", "", "Path of the `directory` for the last known good records. After a restart they are served if the API server is unavailable. They contain private keys, unless a KMS plugin has encrypted these, so the directory must be in memory and private. If empty, no records are saved")
	flags.StringVar(&o.kmsSocket, "kms-socket", "", "Path of the Unix `socket` of the KMS plugin that decrypts private keys in records. If empty, encrypted keys cannot be used")
	flags.DurationVar(&o.kmsTimeout, "kms-timeout", keyencryption.DefaultTimeout, "Timeout of each request to the KMS plugin, at least 100ms")
	flags.StringVar(&o.auditLog, "audit-log", "-", "Path of the `file` for the audit log, with one line of JSON for each credential decision. Use - for standard output. If empty, the audit log is disabled")
	flags.Func("accepted-service-account-issuer", "Another `issuer=time` of the cluster, whose service account tokens are accepted until the time (RFC 3339), such as https://a.example.com=2026-12-01T00:00:00Z. Can be repeated", func(value string) error {
		accepted, err := clusterkeys.ParseAcceptedIssuer(value)
		o.acceptedIssuers = append(o.acceptedIssuers, accepted)
		return err
	})
	flags.Func("trusted-proxies", "Comma-separated `CIDRs` of TLS-terminating proxies whose X-Forwarded-For is trusted, such as 10.0.0.0/8,fd00::/8", source.Into(&o.trustedProxies))
	flags.Func("proxy-protocol-from", "Comma-separated `CIDRs` of load balancers whose connections begin with a PROXY protocol header, version 1 or 2. Connections from them without the header are closed", source.Into(&o.proxyProtocolFrom))
	flags.Func("passthrough-proxies", "Comma-separated `CIDRs` of proxies that pass TLS through and hide the source address. The limit of connections for each source does not apply to them", source.Into(&o.passthrough))
	flags.DurationVar(&o.drainDelay, "drain-delay", 0, "Time to keep accepting connections after SIGTERM so that load balancers can stop routing here")
	flags.DurationVar(&o.maxStaleness, "max-staleness", 0, "Time without contact with the API server after which /readyz fails, so that the Pod leaves the Service. At least 30s. If 0, the server stays ready")
	flags.DurationVar(&o.idleTimeout, "idle-timeout", httpserver.DefaultIdle, "Time for which connections without requests stay open, 5s to 1h. It must be longer than in proxies in front of the server. At most 30s while more than half of all possible connections are open")
	flags.DurationVar(&o.usageResolution, "usage-resolution", usage.DefaultResolution, "Precision of the times at which credentials were last used, 1s to 24h. The operator must have the same")
	flags.BoolVar(&o.reusePort, "reuse-port", false, "Share the public port with other token servers on this host. The kernel distributes connections among them")
	flags.BoolVar(&o.debug, "debug", false, "Log at debug level. Secrets and tokens are never logged")
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

func (o *options) validate() error {
	for _, required := range []struct{ name, value string }{
		{"tls-cert-file", o.certFile}, {"tls-key-file", o.keyFile}, {"name", o.name},
	} {
		if required.value == "" {
			return fmt.Errorf("%w: --%s is required", errUsage, required.name)
		}
	}
	if err := heartbeat.ValidateMaxStaleness(o.maxStaleness); err != nil {
		return fmt.Errorf("%w: --max-staleness %w", errUsage, err)
	}
	if err := httpserver.ValidateIdle(o.idleTimeout); err != nil {
		return fmt.Errorf("%w: --idle-timeout %w", errUsage, err)
	}
	if o.usageResolution < minUsageResolution || o.usageResolution > usage.MaxResolution {
		return fmt.Errorf("%w: --usage-resolution must be between %s and %s, not %s", errUsage, minUsageResolution, usage.MaxResolution, o.usageResolution)
	}
	if o.kmsTimeout < minKMSTimeout {
		return fmt.Errorf("%w: --kms-timeout must be at least %s, not %s", errUsage, minKMSTimeout, o.kmsTimeout)
	}
	if err := source.Disjoint(o.passthrough, o.proxyProtocolFrom); err != nil {
		return fmt.Errorf("%w: a network of --passthrough-proxies hides the source, so it must not be in --proxy-protocol-from: %w", errUsage, err)
	}
	if problems := validation.IsDNS1123Label(o.namespace); len(problems) > 0 {
		return fmt.Errorf("%w: --namespace %q is not a valid namespace name: %s", errUsage, o.namespace, problems[0])
	}
	// The name is part of the Lease name. Without the Lease, no client becomes Ready.
	if problems := validation.IsDNS1123Subdomain(heartbeat.LeaseName(o.name)); len(problems) > 0 {
		return fmt.Errorf("%w: --name %q cannot be part of a Lease name: %s", errUsage, o.name, problems[0])
	}
	return nil
}
