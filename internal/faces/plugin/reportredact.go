package plugin

import (
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
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
		"apiVersion": {}, "kind": {}, "metadata": metadataFields, "data": {map[string]fields{instanceFile: configurationFields}},
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
		if text, ok := data[instanceFile].(string); ok && yaml.Unmarshal([]byte(text), &configuration) == nil {
			data[instanceFile] = configuration
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
			kept[scrub(name)] = f.redactMember(name, member)
		}
		if name, _ := v["name"].(string); v["image"] != nil && !slices.Contains(ownContainers, name) {
			for _, arguments := range []string{"command", "args"} {
				if kept[arguments] != nil {
					kept[arguments] = redacted
				}
			}
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
	if text, ok := value.(string); ok {
		return scrub(text)
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
		`operations-listen|passthrough-proxies|proxy-protocol-from|public-url|records-namespace|reuse-port|session-key-file|snapshot-dir|stale-after|` +
		`tls-cert-file|tls-key-file|token-server-image|trusted-proxies|usage-resolution)(=.*)?)$`)
)

func (f fields) redactMember(name string, value any) any {
	keep, listed := f.members[name]
	if !listed && len(f.members) > 0 {
		return redacted
	}
	switch {
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
				keep = environmentWithValue
			}
		}
		list[i] = keep.redact(list[i])
	}
	return list
}

// secretForm is a form of secrets in text, such as messages and logs.
type secretForm struct {
	// words are the texts in lowercase with which the form starts. Finding them first makes the search fast.
	words []string
	// expression matches the form. The first two groups are kept before the secret, and the third after it.
	expression *regexp.Regexp
	// before are the characters before the words that belong to the secret too.
	before string
}

// newForm returns a form that starts with one of the words, separated by spaces. They replace WORD in the expression.
func newForm(words, expression string) secretForm {
	list := strings.Fields(strings.ToLower(words))
	quoted := make([]string, len(list))
	for i, word := range list {
		quoted[i] = regexp.QuoteMeta(word)
	}
	word := "(?i:" + strings.Join(quoted, "|") + ")"
	return secretForm{words: list, expression: regexp.MustCompile("^" + strings.Replace(expression, "WORD", word, 1))}
}

// Names of secrets. Those in looseNames occur in sentences too.
const (
	strictNames = "password passwd passphrase client_secret client-secret clientsecret api_key api-key apikey private_key private-key privatekey " +
		"access_key access-key accesskey account_key accountkey secret_key secret-key secretkey key-data pwd plaintext " +
		`pin-value _pin "pin`
	looseNames = "token secret credential credentials assertion session"
	base64Text = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\% \t\r\n"
)

var secretForms = slices.Concat(
	[]secretForm{
		// Private keys in PEM format, even if a part is missing, or line breaks are escaped.
		newForm("-----BEGIN", `WORD[A-Z0-9 +%]*PRIVATE[ +%0-9]*KEY-----[A-Za-z0-9+/=\s\\:,.%_-]*`),
		{words: []string{"-----end"}, expression: regexp.MustCompile(`^-----END[A-Z0-9 +%]*PRIVATE[ +%0-9]*KEY-----`), before: base64Text},
		// Client secrets of Realmkeeper, and secrets of other systems with a prefix.
		newForm("rk_", `rk_[A-Za-z0-9]{24,}`),
		newForm("gho_ ghp_ ghr_ ghs_ ghu_ github_pat_ glpat- hvs. hvb. xoxb- xoxp- AGE-SECRET-KEY-1", `WORD[A-Za-z0-9_-]{16,}`),
		// Hashes of secrets in PHC and crypt format.
		newForm("$argon2 $hmac-sha256$ $pbkdf2 $scrypt$ $2a$ $2b$ $2x$ $2y$ $1$ $5$ $6$ $y$", `WORD[A-Za-z0-9+/=.,$_-]+`),
		// JSON Web Tokens.
		newForm("eyJ", `eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)+`),
		// Header fields, up to the next quote or the end of the line, and values with an authentication scheme.
		newForm("authorization cookie", `(WORD\\*["']?\s*[:=]\s*\[?\\*["']?)[^"'\\\r\n]+`),
		newForm("basic bearer dpop negotiate", `(WORD(?:\s|%20|\+)+)[A-Za-z0-9+/=_.~-]{16,}`),
		// Flags whose values are separate arguments.
		newForm("--password --passphrase --pin --token --secret --client-secret --api-key", `(WORD\s+)[^\s"',\\]+`),
		// Passwords in URLs, and parameters of signed URLs.
		newForm(`:// :\/\/`, `(WORD)()[^/\s"'<>?#\\]*(@)`),
		newForm("?sig= &sig= signature= ?code= &code= ?key= &key= ?auth= &auth=", `(WORD)[^&\s"'\\]+`),
		// Private members of JSON Web Keys.
		newForm(`"d "p "q "dp "dq "qi "k`, `(WORD\\*"\s*:\s*)(\\*")[A-Za-z0-9_=-]+(\\*")`),
	},
	// Values of names in JSON, YAML, forms, and key-value pairs.
	newValueForms(strictNames, `(WORD\\*["']?\s*(?:[:=]|%3[Dd])\s*)`),
	newValueForms(looseNames, `(WORD(?:\\*["']\s*[:=]\s*|=))`),
	[]secretForm{newForm(looseNames, `(WORD:\s*)\[?[A-Za-z0-9+/=_.~-]{16,}`)},
)

// newValueForms returns the forms of values after a name: text in quotes, in a JSON text that is itself in a JSON
// text, or without quotes.
func newValueForms(names, start string) []secretForm {
	return []secretForm{
		newForm(names, start+`(\[?")(?:[^"\\]|\\.)*("?)`), newForm(names, start+`(')[^']*('?)`),
		newForm(names, start+`(\\")(?:[^"\\]|\\\\(?:\\"|\\\\|[^"\\]))*((?:\\")?)`), newForm(names, start+`(\\{2,}")(?:[^"\\]|\\+[^"\\]|\\{2,}")*()`),
		newForm(names, start+`()\[?[^\s"',;&\[\\][^\s"',;&\\]*()`),
	}
}

// replace replaces the secrets of a form in a text. lower is the text in lowercase.
func (f secretForm) replace(text, lower, word string) string {
	var kept []byte
	end := 0 // of the last secret
	for start := 0; ; {
		found := strings.Index(lower[start:], word)
		if found < 0 {
			break
		}
		start += found
		match := f.expression.FindStringSubmatchIndex(text[start:])
		if match == nil {
			start++
			continue
		}
		kept = append(kept, strings.TrimRight(text[end:start], f.before)...)
		kept = f.expression.ExpandString(kept, "${1}${2}"+redacted+"${3}", text[start:], match)
		start += match[1]
		end = start
	}
	if end == 0 {
		return text
	}
	return string(append(kept, text[end:]...))
}

// lowercase changes only ASCII, so that the positions stay the same.
func lowercase(text string) string {
	lower := []byte(text)
	for i, b := range lower {
		if 'A' <= b && b <= 'Z' {
			lower[i] = b + 'a' - 'A'
		}
	}
	return string(lower)
}

// styles matches the escape sequences with which programs color their logs. They can separate a name from its value.
var styles = regexp.MustCompile("\x1b\\[[^\\x40-\\x7e]*[\\x40-\\x7e]")

// scrub replaces secrets in a text. It can find only those that have a known form or name, in plaintext or encoded once.
func scrub(text string) string {
	text = scrubPlain(styles.ReplaceAllString(text, ""))
	var kept strings.Builder
	for text != "" {
		// Base64 and hexadecimal text
		run := strings.IndexFunc(text, func(r rune) bool { return !isEncoded(r) })
		if run < 0 {
			run = len(text)
		}
		if run < minEncoded || !slices.ContainsFunc(decodings(text[:run]), func(decoded string) bool { return scrubPlain(decoded) != decoded }) {
			kept.WriteString(text[:run])
		} else {
			kept.WriteString(redacted)
		}
		text = text[run:]
		next := strings.IndexFunc(text, isEncoded)
		if next < 0 {
			next = len(text)
		}
		kept.WriteString(text[:next])
		text = text[next:]
	}
	return kept.String()
}

func scrubPlain(text string) string {
	lower := lowercase(text)
	for _, form := range secretForms {
		for _, word := range form.words {
			if changed := form.replace(text, lower, word); changed != text {
				text, lower = changed, lowercase(changed)
			}
		}
	}
	return text
}

// minEncoded is the length of the shortest Base64 or hexadecimal text that can contain a secret.
const minEncoded = 20

func isEncoded(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '+' || r == '/' || r == '-' || r == '_'
}

// decodings decodes a text. Its first characters may not belong to what is encoded, such as the n of an escaped line
// break.
func decodings(run string) (decoded []string) {
	for start := range 4 {
		decoded = append(decoded, decodeRun(run[start:])...)
	}
	return decoded
}

func decodeRun(run string) (decoded []string) {
	if plain, err := hex.DecodeString(run); err == nil {
		decoded = append(decoded, string(plain))
	}
	if len(run)%4 == 1 {
		run = run[:len(run)-1] // The last character encodes nothing.
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if plain, err := encoding.DecodeString(run); err == nil {
			decoded = append(decoded, string(plain))
		}
	}
	return decoded
}
