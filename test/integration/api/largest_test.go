package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// etcd rejects requests with more bytes.
const maxRequest = 1500 << 10

// The largest object that the schema allows fits into etcd, with its status and the managed fields of the two
// managers that apply them. A new field makes the objects larger, because they are derived from the schema.
func TestLargestObjectsFit(t *testing.T) {
	cluster := env.Start(t)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: (&largest{}).object("", schemaOf(t, k))}
			object.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(k.name))
			object.SetName(strings.Repeat("n", 63))
			if k.name == "ApiClient" {
				object.SetNamespace(cluster.Namespace(t))
			}
			status := object.DeepCopy()
			delete(object.Object, "status")
			delete(status.Object, "spec")
			if err := cluster.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("largest")); err != nil {
				t.Fatalf("applying the spec: %v", err)
			}
			if err := cluster.Client.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(status), client.FieldOwner("operator")); err != nil {
				t.Fatalf("applying the status: %v", err)
			}
			stored := &unstructured.Unstructured{}
			stored.SetGroupVersionKind(object.GroupVersionKind())
			if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), stored); err != nil {
				t.Fatal(err)
			}
			size := func(part any) int {
				encoded, err := json.Marshal(part)
				if err != nil {
					t.Fatal(err)
				}
				return len(encoded)
			}
			total := size(stored.Object)
			t.Logf("%d bytes: spec %d, status %d, managed fields %d", total,
				size(stored.Object["spec"]), size(stored.Object["status"]), size(stored.GetManagedFields()))
			if total > maxRequest {
				t.Errorf("the largest %s has %d bytes, more than %d", k.name, total, maxRequest)
			}
		})
	}
}

// largest makes the largest values that a schema allows. Its strings differ, because lists can be sets.
type largest struct{ strings int }

// smaller lists the members that an object can't have together with a larger one. The largest object omits
// them.
var smaller = []string{
	"spec.grants[].namespaces.from", "spec.grants[].namespaces.names", "spec.trustedIssuers[].keys.jwks", "spec.claims[].integer", "spec.claims[].strings",
	"spec.exchanges[].actors.namespaces.from", "spec.exchanges[].actors.namespaces.names", "spec.exchanges[].subjects.issuer",
	"spec.exchanges[].actors.namespaces.selector.matchExpressions", "spec.exchanges[].subjects.clients.namespaces.selector.matchExpressions",
	"spec.exchanges[].subjects.clients.namespaces.from", "spec.exchanges[].subjects.clients.namespaces.names",
	"spec.secret.provided", "spec.secret.hashed", "spec.secret.generated.rotation.overlap", "spec.publicKeys[].pem", "spec.identities[].serviceAccount", "spec.identities[].subject",
}

// fixed are values that other rules limit or require.
var fixed = map[string]any{
	"spec.tokenLifetime": "24h", "spec.signing.publishAhead": "10m", "spec.signing.rotationInterval": "99999h",
	"spec.grants[].namespaces.selector.matchExpressions[].operator": "In",
	"spec.trustedIssuers[].uses":                                    []any{"ClientAuthentication", "IDJAG"},
	"spec.exchanges[].tokenLifetime":                                "24h",
	"spec.statusList.ttl":                                           "10m",
	"spec.secret.generated.rotation.interval":                       "99999h",
	"spec.secret.generated.rotation.expireWhenUnused.after":         "24h",
	"spec.secret.generated.rotation.expireWhenUnused.max":           "720h",
	"spec.secret.generated.keys": map[string]any{
		"client_id": strings.Repeat("a", 253), "client_secret": strings.Repeat("b", 253), "next_client_secret": strings.Repeat("c", 253), "token_url": strings.Repeat("d", 253),
		"cluster_token_url": strings.Repeat("e", 253), "issuer": strings.Repeat("f", 253), "jwks_url": strings.Repeat("g", 253), "scope": strings.Repeat("h", 253),
	},
	// The labels with a prefix are those that are allowed.
	"spec.secret.generated.template.labels":      allowedMetadata(strings.Repeat("v", 63)),
	"spec.secret.generated.template.annotations": allowedMetadata(strings.Repeat("𝄞", 4096)),
}

func allowedMetadata(value string) map[string]any {
	metadata := map[string]any{}
	for i := range 16 {
		metadata[fmt.Sprintf("app.kubernetes.io/%s%02d", strings.Repeat("k", 61), i)] = value
	}
	return metadata
}

// texts make strings with a special form from the largest one of letters.
var texts = []struct {
	path *regexp.Regexp
	make func(letters string) string
}{
	{regexp.MustCompile(`Time$`), func(string) string { return "2999-12-31T23:59:59Z" }},
	{regexp.MustCompile(`(displayName|description|\]\.value|\.annotations\[\])$`), func(s string) string { return strings.Repeat("𝄞", len(s)) }},
	{regexp.MustCompile(`^spec\.trustedIssuers\[\]\.(issuer|keys\.jwksURI)$`), func(s string) string { return "https://" + s[8:] }},
	{regexp.MustCompile(`caBundle$`), func(s string) string { return "-----BEGIN CERTIFICATE-----" + s[27:] }},
	{regexp.MustCompile(`jwk$`), func(s string) string { return `{"` + s[4:] + `"}` }},
	{regexp.MustCompile(`^spec\.claims\[\]\.string$`), func(s string) string { return s[len(s)-64:] }}, // with the name, a 16th of 2048
	{regexp.MustCompile(`conditions\[\]\.message$`), func(s string) string { return s[:2048] }},        // as the operator limits them
	{regexp.MustCompile(`matchLabels$|matchExpressions\[\]\.key$`), func(s string) string { return s[:253] + "/" + s[254:] }},
	{regexp.MustCompile(`(rotationInterval|publishAhead|tokenLifetime)$`), func(string) string { return "99999h99999m99999s" }},
}

func (l *largest) value(path string, schema apiextensionsv1.JSONSchemaProps) any {
	if value, ok := fixed[path]; ok {
		return value
	}
	switch {
	case schema.Type == "array":
		items := make([]any, 0, *schema.MaxItems)
		for range *schema.MaxItems {
			items = append(items, l.value(path+"[]", *schema.Items.Schema))
		}
		return items
	case schema.AdditionalProperties != nil:
		values := map[string]any{}
		for range *schema.MaxProperties {
			values[l.text(path, 317)] = l.value(path+"[]", *schema.AdditionalProperties.Schema)
		}
		return values
	case schema.Type == "object":
		return l.object(path, schema)
	case schema.Type == "integer":
		return int64(1)
	case schema.Type == "boolean":
		return true
	case len(schema.Enum) > 0:
		return longest(schema.Enum)
	case schema.MaxLength != nil:
		return l.text(path, int(*schema.MaxLength))
	}
	return l.text(path, 63)
}

func (l *largest) object(path string, schema apiextensionsv1.JSONSchemaProps) map[string]any {
	members := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		below := strings.TrimPrefix(path+"."+name, ".")
		if path == "" && name != "spec" && name != "status" || slices.Contains(smaller, below) {
			continue
		}
		members[name] = l.value(below, schema.Properties[name])
	}
	return members
}

// text returns a string of the given length that ends in a number of its own.
func (l *largest) text(path string, length int) string {
	l.strings++
	number := strconv.Itoa(l.strings)
	letters := strings.Repeat("a", max(0, length-len(number))) + number
	for _, text := range texts {
		if text.path.MatchString(path) {
			return text.make(letters)
		}
	}
	return letters
}

func longest(enum []apiextensionsv1.JSON) string {
	var found string
	for _, e := range enum {
		var value string
		if json.Unmarshal(e.Raw, &value) == nil && len(value) > len(found) {
			found = value
		}
	}
	return found
}
