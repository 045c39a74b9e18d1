package kubectlplugin

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
)

// redacted replaces every value that a support bundle omits.
const redacted = "[redacted]"

// fields is an allow-list: the members of an object that a support bundle contains. A member that lists no
// members is kept with everything in it. Lists are transparent.
type fields map[string]fields

// newFields returns the fields with the given names, separated by spaces, in the objects at the given paths.
func newFields(byPath map[string]string) fields {
	root := fields{}
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
	if f[name] == nil {
		f[name] = fields{}
	}
	return f[name]
}

// with adds the metadata of objects at a path.
func (f fields) with(path ...string) fields {
	parent := f
	for _, name := range path {
		parent = parent.add(name)
	}
	parent["metadata"] = metadataFields
	return f
}

var metadataFields = newFields(map[string]string{
	"": "name generateName namespace uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds finalizers ownerReferences",
}).keys("labels",
	nameLabel, componentLabel, "app.kubernetes.io/instance", "app.kubernetes.io/version", v1beta1.ManagedByLabel, "helm.sh/chart", "pod-template-hash",
	v1beta1.RecordLabel, v1beta1.ClientSecretLabel, heartbeat.Label, "kubernetes.io/arch", "kubernetes.io/os",
).keys("annotations",
	"deployment.kubernetes.io/revision", "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas",
	"kubectl.kubernetes.io/restartedAt", "kubectl.kubernetes.io/default-container", "auth.realmkeeper.dev/configured-replicas",
	v1beta1.AllowDeletionAnnotation, v1beta1.OwnerAnnotation, v1beta1.ReleaseAnnotation,
	heartbeat.LoadedAnnotation, heartbeat.SoftwareAnnotation, heartbeat.DeadAnnotation, heartbeat.UsageAnnotation, heartbeat.ResolutionAnnotation,
	heartbeat.UndecryptedNextAnnotation, heartbeat.UndecryptedActiveAnnotation, heartbeat.UnreadableAnnotation,
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
		"":                         "apiVersion kind status",
		"spec":                     "tokenLifetime audiences scopes grants allowedClaims signing limits suspend tokensValidAfterTime",
		"spec.trustedIssuers":      "name issuer audience",
		"spec.trustedIssuers.keys": "jwksURI", "spec.trustedIssuers.requiredClaims": "name", "spec.claims": "name",
	}).with()
	clientFields = newFields(map[string]string{
		"":                            "apiVersion kind status",
		"spec":                        "realmRef clientID scopes audiences introspection tokenLifetime limits suspend expirationTime tokensValidAfterTime senderConstraint",
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
	configMapFields = fields{
		"apiVersion": {}, "kind": {}, "metadata": metadataFields,
		"data": {instanceFile: configurationFields, corev1.ServiceAccountRootCAKey: newFields(map[string]string{"": "subject issuer notBefore notAfter sha256"})},
	}
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
		// They are summaries of text, which is omitted if it can't be parsed.
		var configuration map[string]any
		if text, ok := data[instanceFile].(string); ok && yaml.Unmarshal([]byte(text), &configuration) == nil {
			data[instanceFile] = configuration
		}
		if text, ok := data[corev1.ServiceAccountRootCAKey].(string); ok {
			data[corev1.ServiceAccountRootCAKey] = certificates(text)
		}
	}
	kept, _ := keep.redact(u.Object).(map[string]any)
	return kept
}

// redact returns a value without the members that f doesn't list. Texts that are kept can still contain
// secrets, for example in messages.
func (f fields) redact(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(v))
		for name, member := range v {
			inner, listed := f[name]
			switch {
			case !listed && len(f) > 0:
				member = redacted
			case listed && (name == "args" || name == "command"):
				member = redactArguments(member)
			case listed && name == "jwksURI":
				member = redactQuery(member)
			case listed && name == "env":
				member = redactEnvironment(member)
			default:
				member = inner.redact(member)
			}
			kept[scrub(name)] = member
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i := range v {
			kept[i] = f.redact(v[i])
		}
		return kept
	}
	if len(f) > 0 {
		return redacted // It is an object only in the versions of the API that f knows.
	}
	if text, ok := value.(string); ok {
		return scrub(text)
	}
	return value
}

var (
	environmentFields = newFields(map[string]string{"": "name valueFrom"})
	// knownVariables are the environment variables whose values are in the report.
	knownVariables = []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"}
	// knownFlag matches the arguments of the operator, the token servers, and the portal that aren't redacted.
	knownFlag = regexp.MustCompile(`^(/(operator|token-server|portal)|--(api-server-ca-file|audit-log|config|debug|drain-delay|health-probe-bind-address|idle-timeout|` +
		`initial-admin|kms-socket|kms-timeout|leader-elect|listen|max-staleness|metrics-bind-address|name|namespace|oidc-ca-file|oidc-client-secret-file|` +
		`operations-listen|passthrough-proxies|proxy-protocol-from|public-url|records-namespace|reuse-port|session-key-file|snapshot-dir|stale-after|` +
		`tls-cert-file|tls-key-file|token-server-image|trusted-proxies|usage-resolution)(=.*)?)$`)
)

// redactQuery keeps a URL without its query.
func redactQuery(value any) any {
	text, _ := value.(string)
	if location, _, ok := strings.Cut(text, "?"); ok {
		text = location + "?" + redacted
	}
	return scrub(text)
}

// redactArguments keeps the known arguments of a container.
func redactArguments(value any) any {
	list, ok := value.([]any)
	if !ok {
		return redacted
	}
	for i := range list {
		if argument, ok := list[i].(string); ok && knownFlag.MatchString(argument) {
			list[i] = scrub(argument)
		} else {
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
				keep = maps.Clone(keep)
				keep.add("value")
			}
		}
		list[i] = keep.redact(list[i])
	}
	return list
}

// certificates describes the certificates in a text.
func certificates(text string) []any {
	found := []any{}
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		sum := sha256.Sum256(c.Raw)
		found = append(found, map[string]any{
			"subject": c.Subject.String(), "issuer": c.Issuer.String(), "sha256": hex.EncodeToString(sum[:]),
			"notBefore": c.NotBefore.UTC().Format(time.RFC3339), "notAfter": c.NotAfter.UTC().Format(time.RFC3339),
		})
	}
	return found
}

// secretForms are the forms of secrets in text, such as messages and logs. A form has up to 3 groups of what is
// kept: the first two are before the secret, and the third is after it.
var secretForms = slices.Concat(
	compile(
		// Private keys in PEM format, even if a part is missing, or line breaks are escaped.
		`-----BEGIN[A-Z0-9 +%]*PRIVATE[ +%0-9]*KEY-----[A-Za-z0-9+/=\s\\:,.%_-]*`,
		`[A-Za-z0-9+/=\s\\%]*-----END[A-Z0-9 +%]*PRIVATE[ +%0-9]*KEY-----`,
		// Client secrets of Realmkeeper, and secrets of other systems with a prefix.
		`(?:rk_|gh[oprsu]_|github_pat_|glpat-|hv[bs]\.|xox[abprs]-|AGE-SECRET-KEY-1)[A-Za-z0-9_-]{16,}`,
		// Hashes of secrets in PHC and crypt format.
		`\$(?:argon2(?:id|i|d)|hmac-sha256|pbkdf2(?:-sha[0-9]+)?|scrypt|2[abxy]?|[156y])\$[A-Za-z0-9+/=.,$_-]+`,
		// JSON Web Tokens.
		`eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)+`,
		// Header fields, up to the end of the line or text, and values with an authentication scheme.
		`(?i)((?:authorization|cookie)\\*["']?\s*[:=]\s*\[?\\*["']?)[^"'\\\r\n]+`,
		`(?i)(\b(?:basic|bearer|dpop|negotiate)(?:\s|%20|\+)+)[A-Za-z0-9+/=_.~-]{16,}`,
		// Passwords in URLs, and parameters of signed URLs.
		`([A-Za-z][A-Za-z0-9+.-]*:(?:\\?/){2})()[^/\s"'<>?#\\]*(@)`,
		`(?i)([?&](?:[\w-]*sig(?:nature)?|code|key|apikey|auth)=)[^&\s"'\\]+`,
		// Private members of JSON Web Keys.
		`(\\*"(?:d|p|q|dp|dq|qi|k)\\*"\s*:\s*)(\\*")[A-Za-z0-9_=-]+(\\*")`,
	),
	// Values of names in JSON, YAML, forms, and key-value pairs. Some names occur in sentences too.
	compile(secretValues(`(?i)([\w.-]*(?:passw(?:or)?d|passphrase|client[_-]?secret|api[_-]?key|private[_-]?key|access[_-]?key|key-data)\\*["']?\s*[:=]\s*)`)...),
	compile(secretValues(`(?i)([\w.-]*(?:token|secret|credentials?|assertion|session)(?:\\*["']\s*[:=]\s*|=))`)...),
	compile(`(?i)([\w.-]*(?:token|secret|credentials?|assertion|session):\s*)[A-Za-z0-9+/=_.~-]{16,}`),
)

// secretValues returns the expressions of values after a name: text in quotes, in a JSON text that is itself in a JSON
// text, or without quotes.
func secretValues(name string) []string {
	return []string{
		name + `(")(?:[^"\\]|\\.)*("?)`, name + `(')[^']*('?)`,
		name + `(\\")(?:[^"\\]|\\\\(?:\\"|\\\\|[^"\\]))*((?:\\")?)`, name + `(\\{2,}")(?:[^"\\]|\\+[^"\\]|\\{2,}")*()`,
		name + `()[^\s"',;&{}()\[\]\\]+()`,
	}
}

func compile(expressions ...string) (compiled []*regexp.Regexp) {
	for _, e := range expressions {
		compiled = append(compiled, regexp.MustCompile(e))
	}
	return compiled
}

// encodedText matches text that can be Base64 or hexadecimal.
var encodedText = regexp.MustCompile(`[A-Za-z0-9+/_-]{20,}`)

// scrub replaces secrets in a text. It can find only those that have a known form or name, in plaintext or encoded once.
func scrub(text string) string {
	for _, form := range secretForms {
		text = form.ReplaceAllString(text, "${1}${2}"+redacted+"${3}")
	}
	return encodedText.ReplaceAllStringFunc(text, func(run string) string {
		for _, decoded := range decodings(run) {
			if slices.ContainsFunc(secretForms, func(form *regexp.Regexp) bool { return form.Match(decoded) }) {
				return redacted
			}
		}
		return run
	})
}

func decodings(run string) (decoded [][]byte) {
	if plain, err := hex.DecodeString(run); err == nil {
		decoded = append(decoded, plain)
	}
	whole := run
	if len(run)%4 == 1 {
		whole = run[:len(run)-1] // The last character encodes nothing.
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if plain, err := encoding.DecodeString(whole); err == nil {
			decoded = append(decoded, plain)
		}
	}
	return decoded
}
