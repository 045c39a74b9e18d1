// Package report has the subcommand report, which writes a support bundle without secrets.
package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/inspect"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
)

const reportUsage = `Write a support bundle: a zip file with what is needed to find the cause of a problem. It contains
the versions, the status, the Instance, the Realms and ApiClients, the configuration and the workloads of
Realmkeeper, their Events, logs, and metrics, the NetworkPolicies of its namespace, the Nodes, and the names
of Secrets.

The bundle contains no data of Secrets: the API server is not asked for it. Values that are not known
to be useful and free of secrets are replaced by [redacted]. Logs are only those of the operator, the
token servers, and the portal, which log no secrets. Read the bundle before you send it.

Parts that you may not read are omitted. The standard error and README.txt in the bundle name them and
the permissions that they need. The exit code is 1 if nothing can be read.`

const reportExamples = `  # Write a bundle to a new file in this directory
  kubectl realmkeeper report

  # Include the logs of the last day
  kubectl realmkeeper report --logs-since 24h

  # Include the clients of one namespace only, and choose the file
  kubectl realmkeeper report -n acme-apps --file report.zip`

// reportOptions are the arguments of the report subcommand.
type reportOptions struct {
	*cluster.Options

	file      string
	logsSince time.Duration
	logsLimit resource.QuantityValue
}

// NewCommand returns the verb.
func NewCommand(streams output.Streams) *cobra.Command {
	o := &reportOptions{Options: cluster.NewOptions(streams), logsLimit: resource.QuantityValue{Quantity: resource.MustParse("5Mi")}}
	command := &cobra.Command{
		Use:               "report [--file NAME.zip]",
		Short:             "Write a support bundle without secrets: objects, Events, logs, metrics, versions",
		Long:              reportUsage,
		Example:           reportExamples,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	o.AddConnection(command)
	flags := command.Flags()
	flags.StringVarP(&o.file, "file", "f", "", "New file to write, a directory for a new file with the time in its name, or - for standard output. Defaults to the current directory")
	flags.DurationVar(&o.logsSince, "logs-since", time.Hour, "Age of the oldest log lines, such as 24h. Logs of former containers are included regardless of their age. 0 omits all logs")
	flags.Var(&o.logsLimit, "logs-limit", "Maximum size of the log of a container, and of the metrics of a Pod. The first lines are omitted")
	return command
}

func (o *reportOptions) run(ctx context.Context) error {
	if o.logsSince < 0 || o.logsLimit.Value() < 1 {
		return fmt.Errorf("%w: --logs-since must not be negative, and --logs-limit must be positive", output.ErrUsage)
	}
	if err := o.checkTerminal(); err != nil {
		return err
	}
	c, err := o.Connect()
	if err != nil {
		return err
	}
	server, err := c.Discovery.ServerVersionWithContext(ctx)
	if err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	return o.write(c.Clock.Now(), func(b *bundle) error {
		versions := map[string]any{"plugin": version.Version}
		if err != nil {
			b.miss("version of Kubernetes", "get the path /version", err)
		} else {
			versions["kubernetes"] = server.GitVersion
		}
		(&reporter{Cluster: c, bundle: b, options: o}).collect(ctx, versions)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("collecting the report: %w", err)
		}
		return b.finish()
	})
}

// reporter collects the parts of a support bundle. Parts that can't be read are recorded in the bundle.
type reporter struct {
	*cluster.Cluster

	bundle  *bundle
	options *reportOptions
	// clients is the namespace of the clients in the report; empty for all.
	clients string
}

// kind is a kind of objects in the report.
type kind struct {
	api  string // path of the API
	name string // of the resource, and of the file
	keep fields
}

// path returns the path of the objects in a namespace; empty for all, or if they have none.
func (k kind) path(namespace string) string {
	if namespace == "" {
		return k.api + "/" + k.name
	}
	return k.api + "/namespaces/" + namespace + "/" + k.name
}

// part is a list of objects.
type part struct {
	namespace string
	fields    string // selector
	wanted    func(*unstructured.Unstructured) bool
}

const (
	coreAPI = "/api/v1"
	appsAPI = "/apis/apps/v1"
)

var (
	ownAPI  = "/apis/" + v1beta1.GroupVersion.String()
	pods    = kind{coreAPI, "pods", podFields}
	secrets = kind{coreAPI, "secrets", fields{}}
)

func (r *reporter) collect(ctx context.Context, versions map[string]any) {
	r.clients = r.options.NamespaceFlag()
	r.status(ctx)
	r.objects(ctx, kind{ownAPI, "instances", instanceFields}, part{})
	r.objects(ctx, kind{ownAPI, "realms", realmFields}, part{})
	r.apiClients(ctx)
	r.objects(ctx, kind{coreAPI, "nodes", nodeFields}, part{})

	instance, _ := r.ReadInstance(ctx) // An error has been recorded.
	servers := map[string]string{}
	for _, s := range instance.Status.TokenServers {
		servers[s.Name] = s.Version
	}
	versions["operator"], versions["tokenServers"] = instance.Status.Version, servers
	r.bundle.describe("versions.yaml", "versions of the plugin, Kubernetes, the operator, and the token servers")
	r.bundle.document(r.bundle.create("versions.yaml"), versions)

	system, records, err := r.Namespaces(ctx, &instance.Status)
	if system == "" || records == "" { // An empty name means all namespaces.
		system = ""
		if err == nil {
			err = cluster.ErrNoInstance
		}
		r.bundle.miss("workloads, logs, metrics, and records of the instance", "get the Instance or ClusterRoleBinding "+cluster.InstanceBinding+", which name its namespaces", err)
	} else {
		r.workloads(ctx, system, records)
		r.pods(ctx, system)
	}
	r.events(ctx, system)
	r.secrets(ctx, system, records)
}

// status adds the output of "kubectl realmkeeper status".
func (r *reporter) status(ctx context.Context) {
	o := *r.options.Options
	o.AllNamespaces = r.clients == ""
	report, err := inspect.ReadStatus(ctx, r.Cluster, &o, nil)
	if err != nil {
		r.bundle.miss("output of kubectl realmkeeper status", "list realms, and list apiclients"+in(r.clients), err)
		return
	}
	var out bytes.Buffer
	report.Text(terminal.NewWriter(&out))
	r.bundle.text("status.txt", "output of kubectl realmkeeper status", out.Bytes())
}

// apiClients adds the ApiClients. Users who may not list those of all namespaces get those of the namespace of
// their context.
func (r *reporter) apiClients(ctx context.Context) {
	k := kind{ownAPI, "apiclients", clientFields}
	if r.clients == "" {
		if err := r.request(k.path(""), url.Values{"limit": {"1"}}).Do(ctx).Error(); apierrors.IsForbidden(err) {
			r.miss(k, "", err)
			r.clients = r.Namespace
		}
	}
	r.objects(ctx, k, part{namespace: r.clients})
}

// isOwn reports whether an object in the system namespace belongs to Realmkeeper. All of its names start in the same
// way.
func isOwn(name string) bool { return strings.HasPrefix(name, "realmkeeper") }

func hasOwnName(u *unstructured.Unstructured) bool { return isOwn(u.GetName()) }

// workloads adds the objects of the instance that have kinds of Kubernetes.
func (r *reporter) workloads(ctx context.Context, system, records string) {
	own := part{namespace: system, wanted: hasOwnName}
	for _, k := range []kind{
		{appsAPI, "deployments", workloadFields},
		{appsAPI, "replicasets", workloadFields},
		pods,
		{coreAPI, "services", objectFields},
		{coreAPI, "configmaps", configMapFields},
	} {
		r.objects(ctx, k, own)
	}
	// Policies of others affect the Pods too.
	r.objects(ctx, kind{"/apis/networking.k8s.io/v1", "networkpolicies", objectFields}, part{namespace: system})
	r.objects(ctx, kind{"/apis/coordination.k8s.io/v1", "leases", objectFields}, own, part{namespace: records})
}

func (r *reporter) events(ctx context.Context, system string) {
	involved := func(u *unstructured.Unstructured, field string) string {
		value, _, _ := unstructured.NestedString(u.Object, "involvedObject", field)
		return value
	}
	own := func(u *unstructured.Unstructured) bool {
		return strings.HasPrefix(involved(u, "apiVersion"), v1beta1.GroupVersion.Group+"/")
	}
	parts := []part{
		{r.clients, "involvedObject.kind=" + cluster.KindClient, own},
		{metav1.NamespaceDefault, "involvedObject.kind!=" + cluster.KindClient, own}, // of objects without a namespace
	}
	if system != "" {
		parts = append(parts, part{system, "", func(u *unstructured.Unstructured) bool {
			// The path is spec.containers{operator} if the Event is about a container.
			if _, container, ok := strings.Cut(involved(u, "fieldPath"), "{"); ok && !slices.Contains(ownContainers, strings.TrimSuffix(container, "}")) {
				u.Object["message"] = redacted // It can contain commands and output of the container.
			}
			return !own(u) && isOwn(involved(u, "name"))
		}})
	}
	r.objects(ctx, kind{coreAPI, "events", eventFields}, parts...)
}

// objects adds a file with objects of a kind.
func (r *reporter) objects(ctx context.Context, k kind, parts ...part) {
	var file io.Writer
	count, name := 0, "objects/"+k.name+".yaml"
	for _, p := range parts {
		r.pages(ctx, k, p.namespace, url.Values{"fieldSelector": {p.fields}}, func(content []byte) (string, error) {
			var list unstructured.UnstructuredList
			if err := list.UnmarshalJSON(content); err != nil {
				return "", err
			}
			if file == nil {
				file = r.bundle.create(name)
			}
			for i := range list.Items {
				if u := &list.Items[i]; p.wanted == nil || p.wanted(u) {
					r.bundle.document(file, redactObject(u, k.keep))
					count++
				}
			}
			return list.GetContinue(), nil
		})
	}
	if file != nil {
		r.bundle.describe(name, output.Number(count, "object"))
	}
}

// in describes a namespace.
func in(namespace string) string {
	if namespace == "" {
		return " in all namespaces"
	}
	return " in namespace " + namespace
}

// miss records that a list could not be read.
func (r *reporter) miss(k kind, namespace string, err error) {
	what := k.name + in(namespace)
	if k.name == "instances" || k.name == "realms" || k.name == "nodes" {
		what = k.name
	}
	r.bundle.miss(what, "list "+what, err)
}

func (r *reporter) request(path string, query url.Values) *rest.Request {
	request := r.Discovery.RESTClient().Get().AbsPath(path)
	for name, values := range query {
		request.Param(name, values[0])
	}
	return request
}

// tableOfSecrets requests a list as a table, in which Secrets have no data.
const tableOfSecrets = "application/json;as=Table;v=v1;g=meta.k8s.io"

// pages calls page with each page of a list. page returns the token of the next page.
func (r *reporter) pages(ctx context.Context, k kind, namespace string, query url.Values, page func([]byte) (string, error)) {
	query.Set("limit", strconv.Itoa(cluster.PageSize))
	for {
		request := r.request(k.path(namespace), query)
		if k.name == secrets.name {
			request.SetHeader("Accept", tableOfSecrets)
		}
		content, err := request.Do(ctx).Raw()
		var next string
		if err == nil {
			next, err = page(content)
		}
		if err != nil {
			r.miss(k, namespace, err)
			return
		}
		r.bundle.parts++
		if next == "" {
			return
		}
		query.Set("continue", next)
	}
}

// secrets adds a description of Secrets. Their data isn't requested.
func (r *reporter) secrets(ctx context.Context, system, records string) {
	var file io.Writer
	add := func(namespace, labels string, wanted func(*unstructured.Unstructured) bool) {
		query := url.Values{"labelSelector": {labels}, "includeObject": {string(metav1.IncludeMetadata)}}
		r.pages(ctx, secrets, namespace, query, func(content []byte) (string, error) {
			var table metav1.Table
			if err := json.Unmarshal(content, &table); err != nil {
				return "", err
			}
			if file == nil {
				file = r.bundle.create("secrets.yaml")
				r.bundle.describe("secrets.yaml", "names, types, numbers of data keys, and ages of Secrets and records")
			}
			for _, row := range table.Rows {
				u := &unstructured.Unstructured{}
				if err := json.Unmarshal(row.Object.Raw, &u.Object); err != nil {
					return "", err
				}
				if u.Object == nil {
					continue
				}
				delete(u.Object, "apiVersion") // They say only that the object is metadata.
				delete(u.Object, "kind")
				for i, column := range table.ColumnDefinitions[:min(len(table.ColumnDefinitions), len(row.Cells))] {
					if column.Name == "Type" || column.Name == "Data" || column.Name == "Age" {
						u.Object[strings.ToLower(column.Name)] = row.Cells[i]
					}
				}
				if wanted == nil || wanted(u) {
					r.bundle.document(file, redactObject(u, secretFields))
				}
			}
			return table.Continue, nil
		})
	}
	add(r.clients, v1beta1.ClientSecretLabel, nil)
	if system != "" {
		add(system, "", hasOwnName)
		add(records, "", nil)
	}
}

// pods adds the logs of Realmkeeper's own containers and their predecessors, and the metrics, which the API server
// gets from the Pods.
func (r *reporter) pods(ctx context.Context, system string) {
	list := &corev1.PodList{}
	if err := r.List(ctx, list, client.InNamespace(system)); err != nil {
		r.miss(pods, system, err)
	}
	since := strconv.FormatInt(int64(max(time.Second, r.options.logsSince)/time.Second), 10)
	for _, pod := range list.Items {
		if !isOwn(pod.Name) {
			continue
		}
		for _, status := range pod.Status.ContainerStatuses {
			if r.options.logsSince == 0 || !isOwnContainer(&pod, status.Name) {
				continue
			}
			name := pod.Name + "/" + status.Name
			r.stream(ctx, "pods/log", "logs/"+name+".log", pods.path(system)+"/"+pod.Name+"/log", url.Values{"container": {status.Name}, "sinceSeconds": {since}})
			if status.LastTerminationState.Terminated != nil {
				r.stream(ctx, "pods/log", "logs/"+name+".previous.log", pods.path(system)+"/"+pod.Name+"/log", url.Values{"container": {status.Name}, "previous": {"true"}})
			}
		}
		if port := metricsPort(&pod); port != 0 {
			r.stream(ctx, "pods/proxy", "metrics/"+pod.Name+".txt", fmt.Sprintf("%s/%s:%d/proxy/metrics", pods.path(system), pod.Name, port), nil)
		}
	}
}

// isOwnContainer reports whether a container is the operator, a token server, or the portal. It has the name of the
// component in the labels of its Pod.
func isOwnContainer(pod *corev1.Pod, name string) bool {
	return pod.Labels[cluster.NameLabel] == "realmkeeper" && pod.Labels[cluster.ComponentLabel] == name && slices.Contains(ownContainers, name)
}

// metricsPort returns the port of the operator, a token server, or the portal with its metrics, or 0.
func metricsPort(pod *corev1.Pod) int32 {
	for _, name := range []string{"metrics", "operations", "health"} {
		for _, container := range pod.Spec.Containers {
			for _, port := range container.Ports {
				if port.Name == name && isOwnContainer(pod, container.Name) {
					return port.ContainerPort
				}
			}
		}
	}
	return 0
}

// stream adds the last lines of a response.
func (r *reporter) stream(ctx context.Context, resource, name, path string, query url.Values) {
	content, cut, err := r.tail(ctx, path, query)
	if err != nil {
		what := name
		if apierrors.IsForbidden(err) { // for all Pods
			what, _, _ = strings.Cut(name, "/")
		}
		r.bundle.miss(what, "get "+resource+" in the system namespace", err)
	}
	if err != nil && len(content) == 0 {
		return
	}
	description := "complete"
	if cut {
		description = "without its first lines because of --logs-limit"
	}
	r.bundle.parts++
	r.bundle.text(name, description, content)
}

// tail returns the last lines of a response. cut is true if there are more.
func (r *reporter) tail(ctx context.Context, path string, query url.Values) (content []byte, cut bool, err error) {
	response, err := r.request(path, query).Stream(ctx)
	if err != nil {
		return nil, false, err
	}
	defer response.Close()
	limit := int(r.options.logsLimit.Value())
	for chunk := make([]byte, 64<<10); ; {
		n, err := response.Read(chunk)
		content = append(content, chunk[:n]...)
		if len(content)-limit > limit || err != nil && len(content) > limit {
			content, cut = bytes.Clone(content[len(content)-limit:]), true
		}
		if err == nil {
			continue
		}
		if cut {
			content = content[bytes.IndexByte(content, '\n')+1:] // The first line isn't complete.
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return content, cut, err
	}
}
