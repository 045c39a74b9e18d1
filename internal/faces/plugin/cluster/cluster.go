// Package cluster gives the subcommands of the plugin access to a cluster: kubectl's connection flags, a client with
// the permissions of the user, the installation in the cluster, and the objects that the user names.
package cluster

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
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
)

// PageSize is the maximum number of objects that a list request returns.
const PageSize = 500

// Options are the flags of the subcommands that access a cluster.
type Options struct {
	kubeconfig    *kubeconfig
	AllNamespaces bool
	Output        string
	Streams       output.Streams
}

// NewOptions returns options with the defaults of the flags.
func NewOptions(streams output.Streams) *Options {
	return &Options{kubeconfig: newKubeconfig(), Streams: streams}
}

// AddTo adds the flags to a command.
func (o *Options) AddTo(command *cobra.Command) {
	o.AddConnection(command)
	command.Flags().StringVarP(&o.Output, "output", "o", "", "Output format: json or yaml. Defaults to text")
	CompleteFlag(command, "output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// AddConnection adds the flags that select a cluster to a command.
func (o *Options) AddConnection(command *cobra.Command) {
	o.kubeconfig.addFlags(command)
	CompleteFlag(command, "namespace", o.completeNamespaces)
	CompleteFlag(command, "context", o.completeContexts)
}

// AddAllNamespaces adds the flag --all-namespaces to a command.
func (o *Options) AddAllNamespaces(command *cobra.Command) {
	command.Flags().BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "Include the clients of all namespaces")
}

// Cluster accesses the Kubernetes API with the permissions of the user.
type Cluster struct {
	client.Client

	// Namespace is the value of --namespace. It defaults to the namespace of the kubeconfig context.
	Namespace string
	Discovery *discovery.DiscoveryClient
	Clock     *Clock
}

// Connect checks the output format and connects to the API server.
func (o *Options) Connect() (*Cluster, error) {
	if err := o.CheckOutput(); err != nil {
		return nil, err
	}
	namespace, _, err := o.Namespace()
	if err != nil {
		return nil, err
	}
	config, err := o.kubeconfig.loaded.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("loading kubeconfig: %w", err)
	}
	return newCluster(config, namespace)
}

// Namespace returns the selected namespace, and whether the user named it with a flag.
func (o *Options) Namespace() (name string, explicit bool, err error) {
	name, explicit, err = o.kubeconfig.loaded.Namespace()
	if err != nil {
		return "", false, fmt.Errorf("loading kubeconfig: %w", err)
	}
	return name, explicit, nil
}

// NamespaceFlag returns the value of --namespace.
func (o *Options) NamespaceFlag() string { return o.kubeconfig.overrides.Context.Namespace }

// CheckOutput checks the output format.
func (o *Options) CheckOutput() error {
	if o.Output != "" && o.Output != "json" && o.Output != "yaml" {
		return fmt.Errorf("%w: unsupported --output %q; use json or yaml, or omit the flag", output.ErrUsage, o.Output)
	}
	return nil
}

func newCluster(config *rest.Config, namespace string) (*Cluster, error) {
	// Restoring many clients takes thousands of requests, one after the other.
	config.QPS, config.Burst = 500, 500
	clock := &Clock{}
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
	return &Cluster{Client: c, Namespace: namespace, Discovery: discoverer, Clock: clock}, nil
}

// Print writes a report in the format that the user selected.
func (o *Options) Print(r output.Report) error { return output.Write(o.Streams.Out, o.Output, r) }

// Progress writes a line for people about what a subcommand waits for. It goes to the error stream,
// so that the output contains the result only.
func (o *Options) Progress(format string, args ...any) {
	output.Line(o.Streams.ErrOut, format, args...)
}

// InNamespace restricts a list to the selected namespace, unless --all-namespaces is set.
func (o *Options) InNamespace(c *Cluster) client.ListOption {
	if o.AllNamespaces {
		return client.InNamespace("")
	}
	return client.InNamespace(c.Namespace)
}

// Scope describes the namespaces of a list.
func (o *Options) Scope(c *Cluster) string {
	if o.AllNamespaces {
		return "all namespaces"
	}
	return "namespace " + c.Namespace
}

// EachClient calls visit for every ApiClient of a list.
func (c *Cluster) EachClient(ctx context.Context, visit func(*v1beta1.ApiClient), options ...client.ListOption) error {
	return EachPage(ctx, c, "ApiClients", func(page *v1beta1.ApiClientList) {
		for i := range page.Items {
			visit(&page.Items[i])
		}
	}, options...)
}

// EachPage calls visit for every page of a list, so that a large instance needs little memory. what names the objects in
// errors.
func EachPage[L any, P interface {
	*L
	client.ObjectList
}](ctx context.Context, c *Cluster, what string, visit func(*L), options ...client.ListOption) error {
	for next := ""; ; {
		page := new(L)
		if err := c.List(ctx, P(page), append([]client.ListOption{client.Limit(PageSize), client.Continue(next)}, options...)...); err != nil {
			return DescribeError(err, "listing "+what)
		}
		visit(page)
		if next = P(page).GetContinue(); next == "" {
			return nil
		}
	}
}

// ErrNotInstalled means that the cluster doesn't know the kinds of Realmkeeper.
var ErrNotInstalled = errors.New("no CRDs of Realmkeeper in this cluster; check the context of your kubeconfig, or install Realmkeeper")

// DescribeError adds the failed operation to an error. If the CRDs are missing, the error says what
// to do.
func DescribeError(err error, doing string) error {
	// The API server reports a missing resource as a missing object without a name.
	status, ok := errors.AsType[*apierrors.StatusError](err)
	missing := ok && apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Name == ""
	if meta.IsNoMatchError(err) || missing {
		return ErrNotInstalled
	}
	return fmt.Errorf("%s: %w", doing, err)
}
