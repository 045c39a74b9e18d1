// Command operator reconciles Realms and ApiClients and runs the token service.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	_ "sigs.k8s.io/controller-runtime/pkg/client/config" // for --kubeconfig
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/realmkeeper/realmkeeper/internal/config"
	"github.com/realmkeeper/realmkeeper/internal/operator"
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
	image, err := tokenServerImage(ctx, cfg, instance, o)
	if err != nil {
		return err
	}
	mgr, err := operator.New(ctx, cfg, operator.Options{
		Instance:       instance,
		Image:          image,
		LeaderElection: o.leaderElection,
		ProbeAddress:   o.probeAddress,
		MetricsAddress: o.metricsAddress,
	})
	if err != nil {
		return err
	}
	logger.Info("Operator starts", "version", version.Version, "revision", version.Revision,
		"instanceDomain", instance.InstanceDomain, "namespace", o.namespace, "tokenServerImage", image)
	return mgr.Start(ctx)
}

// containerName is the name of the operator's container in its pod.
const containerName = "operator"

var errNoImage = errors.New("tokenServer.image is not set in the configuration, and POD_NAME names no pod whose image to take; set one of them or --token-server-image")

// tokenServerImage returns the configured image, or the one that this process runs from,
// so that operator and token servers are of one version.
func tokenServerImage(ctx context.Context, cfg *rest.Config, instance *config.Instance, o options) (string, error) {
	if image := cmp.Or(instance.TokenServer.Image, o.image); image != "" {
		return image, nil
	}
	name := os.Getenv("POD_NAME")
	if name == "" {
		return "", errNoImage
	}
	reader, err := client.New(cfg, client.Options{})
	if err != nil {
		return "", fmt.Errorf("connecting to the API server: %w", err)
	}
	pod := &corev1.Pod{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: name}, pod); err != nil {
		return "", fmt.Errorf("reading this process's pod for its image: %w", err)
	}
	for i := range pod.Spec.Containers {
		// By name: meshes put containers of their own first.
		if c := &pod.Spec.Containers[i]; c.Name == containerName {
			return c.Image, nil
		}
	}
	return "", fmt.Errorf("%w: pod %s has no container %q", errNoImage, name, containerName)
}
