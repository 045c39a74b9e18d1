package plugin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// pageSize is the maximum number of objects that a list request returns.
const pageSize = 500

// clusterOptions are the flags of the subcommands that access a cluster.
type clusterOptions struct {
	kubeconfig    *kubeconfig
	allNamespaces bool
	output        string
	streams       Streams
}

func newClusterOptions(streams Streams) *clusterOptions {
	return &clusterOptions{kubeconfig: newKubeconfig(), streams: streams}
}

// addTo adds the flags to a command.
func (o *clusterOptions) addTo(command *cobra.Command) {
	o.addConnection(command)
	command.Flags().StringVarP(&o.output, "output", "o", "", "Output format: json or yaml. Defaults to text")
	completeFlag(command, "output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// addConnection adds the flags that select a cluster to a command.
func (o *clusterOptions) addConnection(command *cobra.Command) {
	o.kubeconfig.addFlags(command)
	completeFlag(command, "namespace", o.completeNamespaces)
	completeFlag(command, "context", o.completeContexts)
}

// addAllNamespaces adds the flag --all-namespaces to a command.
func (o *clusterOptions) addAllNamespaces(command *cobra.Command) {
	command.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Include the clients of all namespaces")
}

// cluster accesses the Kubernetes API with the permissions of the user.
type cluster struct {
	client.Client

	// namespace is the value of --namespace. It defaults to the namespace of the kubeconfig context.
	namespace string
	discovery *discovery.DiscoveryClient
	clock     *serverClock
}

// connect checks the output format and connects to the API server.
func (o *clusterOptions) connect() (*cluster, error) {
	if err := o.checkOutput(); err != nil {
		return nil, err
	}
	namespace, _, err := o.namespace()
	if err != nil {
		return nil, err
	}
	config, err := o.kubeconfig.loaded.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("loading kubeconfig: %w", err)
	}
	return newCluster(config, namespace)
}

// namespace returns the selected namespace, and whether the user named it with a flag.
func (o *clusterOptions) namespace() (name string, explicit bool, err error) {
	name, explicit, err = o.kubeconfig.loaded.Namespace()
	if err != nil {
		return "", false, fmt.Errorf("loading kubeconfig: %w", err)
	}
	return name, explicit, nil
}

// namespaceFlag returns the value of --namespace.
func (o *clusterOptions) namespaceFlag() string { return o.kubeconfig.overrides.Context.Namespace }

// checkOutput checks the output format.
func (o *clusterOptions) checkOutput() error {
	if o.output != "" && o.output != "json" && o.output != "yaml" {
		return fmt.Errorf("%w: unsupported --output %q; use json or yaml, or omit the flag", errUsage, o.output)
	}
	return nil
}

func newCluster(config *rest.Config, namespace string) (*cluster, error) {
	// Restoring many clients takes thousands of requests, one after the other.
	config.QPS, config.Burst = 500, 500
	clock := &serverClock{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return clock.observe(next.RoundTrip(r)) })
	})
	scheme := runtime.NewScheme()
	if err := errors.Join(
		corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme),
		rbacv1.AddToScheme(scheme), v1beta1.AddToScheme(scheme),
	); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return &cluster{Client: c, namespace: namespace, discovery: discoverer, clock: clock}, nil
}

// print writes a report in the format that the user selected.
func (o *clusterOptions) print(r report) error { return writeReport(o.streams.Out, o.output, r) }

// progress writes a line for people about what a subcommand waits for. It goes to the error stream,
// so that the output contains the result only.
func (o *clusterOptions) progress(format string, args ...any) {
	writeLine(o.streams.ErrOut, format, args...)
}

// inNamespace restricts a list to the selected namespace, unless --all-namespaces is set.
func (o *clusterOptions) inNamespace(c *cluster) client.ListOption {
	if o.allNamespaces {
		return client.InNamespace("")
	}
	return client.InNamespace(c.namespace)
}

// scope describes the namespaces of a list.
func (o *clusterOptions) scope(c *cluster) string {
	if o.allNamespaces {
		return "all namespaces"
	}
	return "namespace " + c.namespace
}

// eachClient calls visit for every ApiClient of a list. It reads the list in pages, so that a large
// instance needs little memory.
func (c *cluster) eachClient(ctx context.Context, visit func(*v1beta1.ApiClient), options ...client.ListOption) error {
	var list v1beta1.ApiClientList
	for {
		page := append([]client.ListOption{client.Limit(pageSize), client.Continue(list.Continue)}, options...)
		list = v1beta1.ApiClientList{}
		if err := c.List(ctx, &list, page...); err != nil {
			return describeError(err, "listing ApiClients")
		}
		for i := range list.Items {
			visit(&list.Items[i])
		}
		if list.Continue == "" {
			return nil
		}
	}
}

var errNotInstalled = errors.New("no CRDs of Realmkeeper in this cluster; check the context of your kubeconfig, or install Realmkeeper")

// describeError adds the failed operation to an error. If the CRDs are missing, the error says what
// to do.
func describeError(err error, doing string) error {
	// The API server reports a missing resource as a missing object without a name.
	status, ok := errors.AsType[*apierrors.StatusError](err)
	missing := ok && apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Name == ""
	if meta.IsNoMatchError(err) || missing {
		return errNotInstalled
	}
	return fmt.Errorf("%s: %w", doing, err)
}
