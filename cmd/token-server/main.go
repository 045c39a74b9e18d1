// Command token-server turns client credentials into access tokens.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/version"
)

const usage = `realmkeeper token-server %s

Serves POST /<realm>/oauth2/token, the realms' public keys and their metadata over HTTPS,
from the records that the operator keeps in the system namespace. It holds them in
memory and goes on with what it has while the API server can't be reached; with
--snapshot-dir also across a restart.

Usage:
  token-server --tls-cert-file FILE --tls-key-file FILE [flags]

Flags:
`

type options struct {
	namespace         string
	name              string
	listen            string
	operationsListen  string
	certFile, keyFile string
	kubeconfig        string
	snapshotDir       string
	auditLog          string
	trustedProxies    []netip.Prefix
	drainDelay        time.Duration
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

var errUsage = errors.New("bad flag")

// parse reads the flags; asked for help it writes it to help and returns flag.ErrHelp.
func parse(args []string, help io.Writer) (options, error) {
	var o options
	hostname, _ := os.Hostname() // without one, --name is asked for below
	flags := flag.NewFlagSet("token-server", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // one line tells an error; help is for who asks
	flags.StringVar(&o.namespace, "namespace", "realmkeeper-system", "the system `namespace`, where the records are")
	flags.StringVar(&o.name, "name", hostname, "the `name` of this server, unique among the token servers of the instance; default: the host name")
	flags.StringVar(&o.listen, "listen", ":8443", "the `address` of the public port, HTTPS")
	flags.StringVar(&o.operationsListen, "operations-listen", ":8080", "the `address` of /healthz, /readyz and /metrics, plain HTTP; never make it public")
	flags.StringVar(&o.certFile, "tls-cert-file", "", "the serving certificate, a PEM `file`; taken up when it changes (required)")
	flags.StringVar(&o.keyFile, "tls-key-file", "", "the key of the serving certificate, a PEM `file` (required)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "the kubeconfig `file`; default: KUBECONFIG, then the pod's service account")
	flags.StringVar(&o.snapshotDir, "snapshot-dir", "", "a `directory` for the last good records, from which a restart serves while the API server is away; they hold private keys, so it must be memory that others can't read; empty: none are kept")
	flags.StringVar(&o.auditLog, "audit-log", "-", "a `file` that a line of JSON is added to for each decision about credentials; -: standard output; empty: none")
	flags.Func("trusted-proxies", "the `networks`, such as 10.0.0.0/8,fd00::/8, of proxies that end TLS before this server: they are believed what they say in X-Forwarded-For; default: none", func(list string) (err error) {
		o.trustedProxies, err = parseNetworks(list)
		return err
	})
	flags.DurationVar(&o.drainDelay, "drain-delay", 0, "how long to go on taking connections after SIGTERM, while load balancers learn of it")
	flags.BoolVar(&o.reusePort, "reuse-port", false, "share the public port with other token servers on this host, among which the kernel then spreads connections")
	flags.BoolVar(&o.debug, "debug", false, "log at debug level; secrets and tokens are logged at no level")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(help, usage, version.String())
			flags.SetOutput(help)
			flags.PrintDefaults()
		}
		return options{}, err
	}
	for _, required := range []struct{ name, value string }{
		{"tls-cert-file", o.certFile}, {"tls-key-file", o.keyFile}, {"name", o.name},
	} {
		if required.value == "" {
			return options{}, fmt.Errorf("%w: --%s is required", errUsage, required.name)
		}
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("%w: unexpected argument %q", errUsage, flags.Arg(0))
	}
	if problems := validation.IsDNS1123Label(o.namespace); len(problems) > 0 {
		return options{}, fmt.Errorf("%w: --namespace %q is not a namespace's name: %s", errUsage, o.namespace, problems[0])
	}
	// The name is part of that of a Lease, without which no client gets ready.
	if problems := validation.IsDNS1123Subdomain(heartbeat.LeaseName(o.name)); len(problems) > 0 {
		return options{}, fmt.Errorf("%w: --name %q doesn't fit a Lease's name: %s", errUsage, o.name, problems[0])
	}
	return o, nil
}

// parseNetworks reads networks in CIDR notation with commas between them.
func parseNetworks(list string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for network := range strings.SplitSeq(list, ",") {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return nil, err
		}
		networks = append(networks, prefix)
	}
	return networks, nil
}
