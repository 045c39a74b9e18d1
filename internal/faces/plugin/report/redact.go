package report

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
)

// redacted replaces every value that a support bundle omits.
const redacted = "[redacted]"

// fields is an allow-list: the members of an object that a support bundle contains. A member that lists no
// members is kept with everything in it. Lists are transparent. kube-api-linter doesn't end at a map of itself,
// so the map is in a struct.
type fields struct{ members map[string]fields }

// newFields returns the fields with the given names, separated by spaces, in the objects at the given paths.
func newFields(byPath map[string]string) fields {
	root := fields{map[string]fields{}}
	for path, names := range byPath {
		parent := root
		for name := range strings.SplitSeq(path, ".") {
			if name != "" {
				parent = parent.add(name)
			}
		}
		for name := range strings.FieldsSeq(names) {
			parent.add(name)
		}
	}
	return root
}

func (f fields) add(name string) fields {
	if _, exists := f.members[name]; !exists {
		f.members[name] = fields{map[string]fields{}}
	}
	return f.members[name]
}

// with adds the metadata of objects at a path.
func (f fields) with(path ...string) fields {
	parent := f
	for _, name := range path {
		parent = parent.add(name)
	}
	parent.members["metadata"] = metadataFields
	return f
}

var metadataFields = newFields(map[string]string{
	"": "name generateName namespace uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds finalizers ownerReferences",
}).keys("labels",
	cluster.NameLabel, cluster.ComponentLabel, "app.kubernetes.io/instance", "app.kubernetes.io/version", v1beta1.ManagedByLabel, "helm.sh/chart", "pod-template-hash",
	v1beta1.RecordLabel, v1beta1.ClientSecretLabel, heartbeat.Label, "kubernetes.io/arch", "kubernetes.io/os",
).keys("annotations",
	"deployment.kubernetes.io/revision", "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas",
	"kubectl.kubernetes.io/restartedAt", "kubectl.kubernetes.io/default-container", "auth.realmkeeper.dev/configured-replicas",
	v1beta1.AllowDeletionAnnotation, v1beta1.OwnerAnnotation, v1beta1.ReleaseAnnotation,
	heartbeat.LoadedAnnotation, heartbeat.SoftwareAnnotation, heartbeat.DeadAnnotation, heartbeat.UsageAnnotation, heartbeat.ResolutionAnnotation,
	heartbeat.UndecryptedPendingAnnotation, heartbeat.UndecryptedActiveAnnotation, heartbeat.UnreadableAnnotation,
)

// keys adds the keys of a map, which can contain dots.
func (f fields) keys(name string, keys ...string) fields {
	for _, key := range keys {
		f.add(name).add(key)
	}
	return f
}

var (
	instanceFields = newFields(map[string]string{"": "apiVersion kind status"}).with()
	realmFields    = newFields(map[string]string{
		"":                        "apiVersion kind status",
		"spec":                    "tokenLifetime audiences scopes grants allowedClaims signing statusList limits suspend tokensValidAfterTime",
		"spec.trustedIssuers":     "name issuer audience uses",
		"spec.exchanges":          "name actors audiences scopes maxDepth tokenLifetime senderConstraint",
		"spec.exchanges.subjects": "clients audiences scopes", "spec.exchanges.subjects.issuer": "name use anyClient",
		"spec.exchanges.subjects.issuer.matchClaims": "name",
		"spec.trustedIssuers.keys":                   "jwksURI", "spec.trustedIssuers.requiredClaims": "name", "spec.claims": "name",
	}).with()
	clientFields = newFields(map[string]string{
		"":                            "apiVersion kind status",
		"spec":                        "realmRef clientID scopes delegatedScopes audiences introspection tokenLifetime limits suspend expirationTime tokensValidAfterTime senderConstraint",
		"spec.secret":                 "provided",
		"spec.secret.generated":       "secretName keys rotation",
		"spec.secret.hashed":          "id hashSecretRef expirationTime",
		"spec.publicKeys":             "keyID algorithm",
		"spec.identities":             "name serviceAccount issuer subject",
		"spec.identities.matchClaims": "name", "spec.claims": "name",
	}).with()
	podFields      = newFields(podPaths("spec")).with()
	workloadFields = newFields(podPaths("spec.template.spec")).with().with("spec", "template")
	objectFields   = newFields(map[string]string{"": "apiVersion kind spec status"}).with() // of kinds without free text
	nodeFields     = newFields(map[string]string{
		"": "apiVersion kind", "spec": "unschedulable taints", "status.conditions": "type status reason lastTransitionTime",
		"status.nodeInfo": "architecture containerRuntimeVersion kernelVersion kubeletVersion kubeProxyVersion operatingSystem osImage",
	}).with()
	eventFields = newFields(map[string]string{
		"": "apiVersion kind type reason message count firstTimestamp lastTimestamp eventTime series action reportingComponent reportingInstance source involvedObject",
	}).with()
	configMapFields = fields{map[string]fields{
		"apiVersion": {}, "kind": {}, "metadata": metadataFields, "data": {map[string]fields{cluster.InstanceFile: configurationFields}},
	}}
	secretFields        = newFields(map[string]string{"": "type data age"}).with()
	configurationFields = newFields(map[string]string{
		"": "apiVersion kind instanceDomain externalPort watchNamespaces credentialsSecrets security tls trustedIssuers usage logging testing",
		"tokenServer": "image imagePullPolicy imagePullSecrets replicas resources nodeSelector affinity tolerations topologySpreadConstraints " +
			"priorityClassName audit trustedProxies proxyProtocolFrom passthroughProxies maxStaleness",
		"tokenServer.tracing": "samplePercentage", "keyEncryption.kms": "image imagePullPolicy resources timeout decrypt",
	})
)

// podPaths returns the paths of a Pod or of an object with a Pod template.
func podPaths(spec string) map[string]string {
	paths := map[string]string{
		"": "apiVersion kind status",
		spec: "serviceAccountName automountServiceAccountToken nodeName nodeSelector affinity tolerations topologySpreadConstraints priorityClassName " +
			"securityContext imagePullSecrets terminationGracePeriodSeconds hostNetwork dnsPolicy restartPolicy runtimeClassName schedulerName priority " +
			"preemptionPolicy enableServiceLinks",
		spec + ".volumes": "name emptyDir persistentVolumeClaim projected", spec + ".volumes.secret": "secretName optional",
		spec + ".volumes.configMap": "name optional", spec + ".volumes.csi": "driver",
	}
	if spec != "spec" {
		paths["spec"] = "replicas selector strategy minReadySeconds revisionHistoryLimit progressDeadlineSeconds paused"
	}
	for _, list := range []string{".containers", ".initContainers"} {
		paths[spec+list] = "name image imagePullPolicy command args env envFrom ports resources securityContext volumeMounts restartPolicy " +
			"terminationMessagePath terminationMessagePolicy"
		for _, probe := range []string{".livenessProbe", ".readinessProbe", ".startupProbe"} {
			paths[spec+list+probe] = "initialDelaySeconds periodSeconds timeoutSeconds failureThreshold successThreshold"
			paths[spec+list+probe+".httpGet"] = "path port scheme"
		}
	}
	return paths
}

// redactObject removes everything from an object that isn't in its allow-list.
func redactObject(u *unstructured.Unstructured, keep fields) map[string]any {
	u.SetManagedFields(nil)
	if data, ok := u.Object["data"].(map[string]any); ok && u.GetKind() == "ConfigMap" {
		var configuration map[string]any // It is omitted if it can't be parsed.
		if text, ok := data[cluster.InstanceFile].(string); ok && yaml.Unmarshal([]byte(text), &configuration) == nil {
			data[cluster.InstanceFile] = configuration
		}
	}
	kept, _ := keep.redact(u.Object).(map[string]any)
	return kept
}

// redact returns a value without the members that f doesn't list.
func (f fields) redact(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(v))
		for name, member := range v {
			kept[name] = f.redactMember(name, member)
		}
		if name, _ := v["name"].(string); v["image"] != nil && !slices.Contains(ownContainers, name) {
			for _, arguments := range []string{"command", "args"} {
				if kept[arguments] != nil {
					kept[arguments] = redacted
				}
			}
			omitWaiting(kept["state"])
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i := range v {
			kept[i] = f.redact(v[i])
		}
		return kept
	}
	if len(f.members) > 0 {
		return redacted // It is an object only in the versions of the API that f knows.
	}
	return value
}

var (
	environmentFields    = newFields(map[string]string{"": "name valueFrom"})
	environmentWithValue = newFields(map[string]string{"": "name value valueFrom"})
	// knownVariables are the environment variables whose values are in the report.
	knownVariables = []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"}
	// ownContainers are the containers with arguments in the report. knownFlag matches these arguments.
	ownContainers = []string{"operator", "token-server", "portal"}
	knownFlag     = regexp.MustCompile(`^(/(operator|token-server|portal)|--(api-server-ca-file|audit-log|config|debug|drain-delay|health-probe-bind-address|idle-timeout|` +
		`initial-admin|kms-socket|kms-timeout|leader-elect|listen|max-staleness|metrics-bind-address|name|namespace|oidc-ca-file|oidc-client-secret-file|` +
		`operations-listen|passthrough-proxies|proxy-protocol-from|records-namespace|reuse-port|session-key-file|snapshot-dir|stale-after|` +
		`tls-cert-file|tls-key-file|token-server-image|trusted-proxies|usage-resolution)(=.*)?)$`)
)

func (f fields) redactMember(name string, value any) any {
	keep, listed := f.members[name]
	if !listed && len(f.members) > 0 {
		return redacted
	}
	switch {
	case name == "terminated":
		return redactTermination(value)
	case listed && (name == "args" || name == "command"):
		return redactArguments(value)
	case listed && name == "env":
		return redactEnvironment(value)
	case listed && name == "jwksURI":
		return redactQuery(value)
	}
	return keep.redact(value)
}

// redactQuery keeps a URL without its query.
func redactQuery(value any) any {
	text, _ := value.(string)
	if location, _, ok := strings.Cut(text, "?"); ok {
		text = location + "?" + redacted
	}
	return text
}

// redactTermination omits the last message of a container, which can be any text.
func redactTermination(value any) any {
	if ended, ok := value.(map[string]any); ok && ended["message"] != nil {
		ended["message"] = redacted
	}
	return value
}

// omitWaiting omits from the state of a container why it waits, which can contain its command and output.
func omitWaiting(state any) {
	states, _ := state.(map[string]any)
	if waiting, ok := states["waiting"].(map[string]any); ok && waiting["message"] != nil {
		waiting["message"] = redacted
	}
}

// redactArguments keeps the known arguments of a container.
func redactArguments(value any) any {
	list, ok := value.([]any)
	if !ok {
		return redacted
	}
	for i := range list {
		if argument, ok := list[i].(string); !ok || !knownFlag.MatchString(argument) {
			list[i] = redacted
		}
	}
	return list
}

// redactEnvironment keeps the names of variables, references to values, and the values of known variables.
func redactEnvironment(value any) any {
	list, _ := value.([]any)
	for i := range list {
		keep := environmentFields
		if variable, ok := list[i].(map[string]any); ok {
			if name, ok := variable["name"].(string); ok && slices.Contains(knownVariables, name) {
				keep = environmentWithValue
			}
		}
		list[i] = keep.redact(list[i])
	}
	return list
}
