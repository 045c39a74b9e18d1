// Command operator reconciles Realms and ApiClients and runs the token service.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/controller-runtime/pkg/client/config" // for --kubeconfig
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/realmkeeper/realmkeeper/internal/operator"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/version"
)

const usage = `realmkeeper operator %s

Reconciles Realms and ApiClients (auth.realmkeeper.dev) into records for the token
servers and Secrets for workloads, and keeps the token service running.

Usage:
  operator --config FILE [flags]

FILE is the instance configuration, YAML of kind InstanceConfiguration: instance domain,
token lifetimes, token servers and TLS. A key that it doesn't know is an error.
docs/operations.md describes it.

Flags:
`

type options struct {
	config         string
	namespace      string
	image          string
	leaderElection bool
	probeAddress   string
	metricsAddress string
	logging        zap.Options
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

var errUsage = errors.New("bad flag")

// levelOfBodies is the log level from which on client-go logs the bodies of requests and
// answers, and the secrets in them.
const levelOfBodies = 8

// parse reads the flags; asked for help it writes it to help and returns flag.ErrHelp.
func parse(args []string, help io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("operator", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // one line tells an error; help is for who asks
	flags.StringVar(&o.config, "config", "", "the instance configuration `file` (required)")
	flags.StringVar(&o.namespace, "namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "realmkeeper-system"),
		"the system `namespace`, where records are kept and token servers run; POD_NAMESPACE sets the default")
	flags.StringVar(&o.image, "token-server-image", "",
		"the `image` of the token servers, where the configuration names none; default: the image of this pod, which POD_NAME names")
	flags.BoolVar(&o.leaderElection, "leader-elect", true, "work only while holding the leader Lease; needed with more than one replica and during updates")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "the `address` of /healthz and /readyz")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "the `address` of /metrics; 0 for none")
	if kubeconfig := flag.CommandLine.Lookup("kubeconfig"); kubeconfig != nil {
		flags.Var(kubeconfig.Value, "kubeconfig", "the kubeconfig `file`; default: KUBECONFIG, then the pod's service account")
	}
	o.logging.BindFlags(flags)
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
	if problems := validation.IsDNS1123Label(o.namespace); len(problems) > 0 {
		return options{}, fmt.Errorf("%w: --namespace %q is not a namespace's name: %s", errUsage, o.namespace, problems[0])
	}
	if zap.New(zap.UseFlagOptions(&o.logging)).V(levelOfBodies).Enabled() {
		return options{}, fmt.Errorf("%w: --zap-log-level must be below %d, from which on secrets would be logged", errUsage, levelOfBodies)
	}
	return o, nil
}

func run(o options) error {
	instance, err := config.Load(o.config)
	if err != nil {
		return err
	}
	instance.SystemNamespace = o.namespace
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server by --kubeconfig, KUBECONFIG or service account: %w", err)
	}
	// Logging begins when the input is known to be good: a bad one is told in one line, and
	// finding no API server would be logged beside it.
	logger := zap.New(zap.UseFlagOptions(&o.logging))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	ctx := ctrl.SetupSignalHandler()
	pod, err := ownPod(ctx, cfg, o.namespace)
	if err != nil {
		return err
	}
	image, err := tokenServerImage(pod, cmp.Or(instance.TokenServer.Image, o.image))
	if err != nil {
		return err
	}
	mgr, err := operator.New(ctx, cfg, operator.Options{
		Instance:       instance,
		Image:          image,
		Account:        pod.Spec.ServiceAccountName,
		LeaderElection: o.leaderElection,
		ProbeAddress:   o.probeAddress,
		MetricsAddress: o.metricsAddress,
	})
	if err != nil {
		return err
	}
	logger.Info("Operator starts", "version", version.Version, "revision", version.Revision,
		"instanceDomain", instance.InstanceDomain, "namespace", o.namespace, "tokenServerImage", image)
	if instance.Testing != (config.Testing{SpeedUp: 1}) {
		logger.Info("This instance is configured for tests, and unfit for use", "speedUp", instance.Testing.SpeedUp)
	}
	return mgr.Start(ctx)
}
