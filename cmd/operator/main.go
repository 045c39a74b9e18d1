// Command operator reconciles Realms and ApiClients and runs the token service.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zapcore"
	_ "golang.org/x/crypto/x509roots/fallback" // The image contains no certificate authorities.
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/controller-runtime/pkg/client/config" // for --kubeconfig
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption/kmsclient"
	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/operator"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

const usage = `realmkeeper operator %s

Reconciles Realms and ApiClients (auth.realmkeeper.dev), writes records for the token
servers and credentials Secrets for workloads, and runs the token service.

Usage:
  operator --config FILE [flags]

FILE is the instance configuration, a YAML file of kind InstanceConfiguration. It sets the
instance domain, token lifetimes, token servers, the log level and TLS. Unknown keys are errors.
See docs/configuration-reference.md for all keys.

Flags:
`

type options struct {
	config         string
	namespace      string
	records        string
	image          string
	leaderElection bool
	probeAddress   string
	metricsAddress string
	kmsSocket      string
}

func main() {
	o, err := parse(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "realmkeeper operator: %v; see --help\n", err)
		os.Exit(2)
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "realmkeeper operator:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("invalid flags")

// parse parses the flags. If help is requested, parse writes it and returns flag.ErrHelp.
func parse(args []string, help io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("operator", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // print a one-line error instead of the whole help
	flags.StringVar(&o.config, "config", "", "Instance configuration `file` (required)")
	flags.StringVar(&o.namespace, "namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "realmkeeper-system"),
		"System `namespace` of the operator and the token servers; the default comes from POD_NAMESPACE if it is set")
	flags.StringVar(&o.records, "records-namespace", "",
		"`Namespace` of the records and of the token servers' heartbeats; defaults to the system namespace followed by -records")
	flags.StringVar(&o.image, "token-server-image", "",
		"Token server `image` if the configuration sets none; defaults to the image of the Pod in POD_NAME")
	flags.BoolVar(&o.leaderElection, "leader-elect", true, "Work only while holding the leader Lease; required with several replicas and during rolling updates")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "Listen `address` of /healthz and /readyz")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "Listen `address` of /metrics, or 0 to disable it")
	flags.StringVar(&o.kmsSocket, "kms-socket", "",
		"Path of the Unix `socket` of the KMS plugin that encrypts private keys in records; defaults to "+config.KMSSocket+" if the configuration has keyEncryption.kms, and to no encryption otherwise")
	if kubeconfig := flag.CommandLine.Lookup("kubeconfig"); kubeconfig != nil {
		flags.Var(kubeconfig.Value, "kubeconfig", "Kubeconfig `file`; defaults to KUBECONFIG, then to the Pod's service account")
	}
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
	if o.config == "" {
		return options{}, fmt.Errorf("%w: --config is required", errUsage)
	}
	if err := o.checkNamespaces(); err != nil {
		return options{}, err
	}
	return o, nil
}

// checkNamespaces sets the default of --records-namespace and checks both namespaces.
func (o *options) checkNamespaces() error {
	if problems := validation.IsDNS1123Label(o.namespace); len(problems) > 0 {
		return fmt.Errorf("%w: --namespace %q is not a valid namespace name: %s", errUsage, o.namespace, problems[0])
	}
	o.records = cmp.Or(o.records, o.namespace+"-records")
	if problems := validation.IsDNS1123Label(o.records); len(problems) > 0 {
		return fmt.Errorf("%w: --records-namespace %q is not a valid namespace name: %s", errUsage, o.records, problems[0])
	}
	if o.records == o.namespace {
		return fmt.Errorf("%w: --records-namespace must differ from --namespace, because token servers can read every Secret in the records namespace", errUsage)
	}
	return nil
}

func run(o options) error {
	instance, err := config.Load(o.config)
	if err != nil {
		return err
	}
	instance.SystemNamespace, instance.RecordsNamespace = o.namespace, o.records
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("loading the client configuration from --kubeconfig, KUBECONFIG or the service account: %w", err)
	}
	// Set up logging only after the input is validated. Invalid input is reported in a single line,
	// and ctrl.GetConfig logs its errors too.
	logger := newLogger(instance.Logging.Level)
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	if err := limitHeap(); err != nil {
		return err
	}
	logger.Info("Starting operator", "version", version.Version, "revision", version.Revision,
		"instanceDomain", instance.InstanceDomain, "namespace", o.namespace, "recordsNamespace", o.records)
	if instance.Testing != (config.Testing{SpeedUp: 1}) {
		logger.Info("Testing mode is enabled; do not use this instance in production", "speedUp", instance.Testing.SpeedUp)
	}
	return operator.Run(ctrl.SetupSignalHandler(), cfg, operator.Options{
		Instance:       instance,
		Image:          cmp.Or(instance.TokenServer.Image, o.image),
		Pod:            os.Getenv("POD_NAME"),
		LeaderElection: o.leaderElection,
		ProbeAddress:   o.probeAddress,
		MetricsAddress: o.metricsAddress,
		KMSSocket:      o.kmsSocket,
		DialKMS:        dialKMS,
	})
}

func dialKMS(socket string, timeout time.Duration, metrics prometheus.Registerer) (operator.KMS, error) {
	return kmsclient.Dial(kmsclient.Options{Socket: socket, Timeout: timeout, Metrics: kmsclient.NewMetrics(metrics)})
}

// heapShare is the part of the container's memory limit for the Go runtime.
const heapShare = 0.9

// limitHeap makes the garbage collector work harder before the memory limit of the container is reached,
// unless GOMEMLIMIT is set.
func limitHeap() error {
	_, err := memlimit.Set(memlimit.WithRatio(heapShare))
	if err != nil && !errors.Is(err, memlimit.ErrNoCgroup) && !errors.Is(err, memlimit.ErrCgroupsNotSupported) {
		return fmt.Errorf("limiting the memory of this process: %w", err)
	}
	return nil
}

// newLogger returns a logger that writes JSON to standard error. Debug is the most verbose level.
// From level 8, client-go would log request and response bodies, which contain secrets.
func newLogger(level config.LogLevel) logr.Logger {
	if level == config.LogDebug {
		return operator.Logger(zap.New(zap.Level(zapcore.DebugLevel)))
	}
	return operator.Logger(zap.New())
}
