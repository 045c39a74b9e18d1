package api_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// node is a part of a schema, with its path as errors of the API server write it: the
// items of a list and the values of a map add [].
type node struct {
	path   string
	schema apiextensionsv1.JSONSchemaProps
}

// field is the name of the member that n is; empty for items, values and the root.
func (n node) field() string {
	name := n.path[strings.LastIndex(n.path, ".")+1:]
	if strings.HasSuffix(name, "[]") {
		return ""
	}
	return name
}

// walk returns the root of a schema and all below it. The members that every object of
// Kubernetes has aren't ours and are left out.
func walk(path string, schema apiextensionsv1.JSONSchemaProps) []node {
	nodes := []node{{path, schema}}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if path == "" && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
			continue
		}
		nodes = append(nodes, walk(strings.TrimPrefix(path+"."+name, "."), schema.Properties[name])...)
	}
	if schema.Items != nil {
		nodes = append(nodes, walk(path+"[]", *schema.Items.Schema)...)
	}
	if schema.AdditionalProperties != nil {
		nodes = append(nodes, walk(path+"[]", *schema.AdditionalProperties.Schema)...)
	}
	return nodes
}

func readCRD(t *testing.T, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "crd", "bases", file))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// words that an API reads better without, as parts of a camel-case name.
var abbreviations = []string{
	"addr", "alg", "ann", "attr", "auth", "aud", "cfg", "cert", "conf", "cred", "ctx", "desc", "dur", "err", "exp",
	"iss", "len", "max", "min", "msg", "ns", "num", "obj", "param", "pwd", "ref", "req", "res", "sec", "sel", "spec",
	"str", "svc", "sub", "tmp", "ttl", "val",
}

// Names in which Kubernetes itself, or an RFC, uses the short form.
var customary = []string{"spec", "realmRef", "secretRef", "alg"}

var camelCase = regexp.MustCompile(`^[a-z]+[a-z0-9]*([A-Z]+[a-z0-9]*)*$`)

// TestAPIConventions checks the schema against the rules that Kubernetes has for APIs
// (https://github.com/kubernetes/community, api-conventions.md), and our own: a size for
// everything, a description for every field, no default in a spec.
func TestAPIConventions(t *testing.T) {
	for _, kind := range kinds {
		for _, n := range walk("", schemaOf(t, kind)) {
			t.Run(kind.name+"/"+n.path, func(t *testing.T) {
				// metav1.Condition is Kubernetes' own.
				if !strings.Contains(n.path, "conditions[]") {
					checkDescription(t, n)
					checkName(t, n)
				}
				checkSize(t, n)
				if n.schema.Type == "" {
					t.Error("No type")
				}
				if n.schema.Default != nil && n.path != "status" {
					t.Errorf("Default %s: a stored spec must be what was written", n.schema.Default.Raw)
				}
				if ptr.Deref(n.schema.XPreserveUnknownFields, false) {
					t.Error("Unknown members are kept")
				}
			})
		}
	}
}

func checkDescription(t *testing.T, n node) {
	switch field := n.field(); {
	case field == "": // Items and values are described with what holds them.
	case !strings.HasPrefix(n.schema.Description, field+" "):
		t.Errorf("The description doesn't begin with %q: %q", field, n.schema.Description)
	case !strings.HasSuffix(n.schema.Description, "."):
		t.Errorf("The description doesn't end with a sentence: %q", n.schema.Description)
	case isOptionalSpec(n) && !strings.Contains(strings.ToLower(n.schema.Description), "left out"):
		t.Errorf("The description doesn't say what holds when it is left out: %q", n.schema.Description)
	}
}

// isOptionalSpec says whether n is a member of spec that isn't required by its parent.
// Members of a union say with their discriminator when they are required.
func isOptionalSpec(n node) bool {
	required := []string{
		"spec.allowedNamespaces", "spec.realmRef", "spec.realmRef.name", "spec.allowedNamespaces.from",
		"spec.allowedNamespaces.selector.matchExpressions[].key",
		"spec.allowedNamespaces.selector.matchExpressions[].operator",
		"spec.secret.generated", "spec.secret.provided", "spec.secret.hashed",
		"spec.secret.provided.secretRef", "spec.secret.provided.secretRef.name",
		"spec.secret.hashed[].id", "spec.secret.hashed[].hash",
		"spec.publicKeys[].kid", "spec.publicKeys[].kty", "spec.serviceAccounts[].name",
	}
	return strings.HasPrefix(n.path, "spec.") && !slices.Contains(required, n.path)
}

func checkName(t *testing.T, n node) {
	field := n.field()
	if field == "" || slices.Contains(customary, field) {
		return
	}
	if !camelCase.MatchString(field) {
		t.Errorf("%q is not lower camel case", field)
	}
	for _, word := range regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`).FindAllString(field, -1) {
		if slices.Contains(abbreviations, strings.ToLower(word)) {
			t.Errorf("%q abbreviates %q", field, word)
		}
	}
}

// checkSize checks that n can't be arbitrarily big, and that lists say how they merge.
func checkSize(t *testing.T, n node) {
	s := n.schema
	switch s.Type {
	case "string":
		if s.MaxLength == nil && len(s.Enum) == 0 && s.Format != "date-time" {
			t.Error("A string without maxLength or enum")
		}
	case "array":
		if s.MaxItems == nil {
			t.Error("A list without maxItems")
		}
		if s.XListType == nil {
			t.Error("A list without listType")
		}
	case "object":
		if s.AdditionalProperties != nil && s.MaxProperties == nil {
			t.Error("A map without maxProperties")
		}
	case "integer":
		if s.Minimum == nil {
			t.Error("A number without minimum")
		}
	case "number":
		t.Error("A floating point number")
	}
}

func schemaOf(t *testing.T, k kind) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	return *readCRD(t, k.crd).Spec.Versions[0].Schema.OpenAPIV3Schema
}

func TestNames(t *testing.T) {
	for name, tc := range map[string]struct {
		wantShortName string
		wantScope     apiextensionsv1.ResourceScope
		wantColumns   []string
		wantWide      []string
	}{
		"Realm": {
			wantShortName: "rlm",
			wantScope:     apiextensionsv1.ClusterScoped,
			wantColumns:   []string{"Ready", "Issuer", "Lifetime", "Age"},
			wantWide:      []string{"Algorithm", "Key age", "Message"},
		},
		"ApiClient": {
			wantShortName: "apic",
			wantScope:     apiextensionsv1.NamespaceScoped,
			wantColumns:   []string{"Ready", "Realm", "Client ID", "Secret", "Age"},
			wantWide:      []string{"Scopes", "Next rotation", "Expires", "Message"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
			crd := readCRD(t, k.crd)
			version := crd.Spec.Versions[0]
			columns := map[int32][]string{}
			for _, c := range version.AdditionalPrinterColumns {
				columns[c.Priority] = append(columns[c.Priority], c.Name)
			}
			if !slices.Equal(columns[0], tc.wantColumns) || !slices.Equal(columns[1], tc.wantWide) {
				t.Errorf("Columns: %v", columns)
			}
			if !slices.Equal(crd.Spec.Names.ShortNames, []string{tc.wantShortName}) {
				t.Errorf("Short names: %v", crd.Spec.Names.ShortNames)
			}
			if !slices.Equal(crd.Spec.Names.Categories, []string{"realmkeeper"}) {
				t.Errorf("Categories: %v", crd.Spec.Names.Categories)
			}
			if crd.Spec.Scope != tc.wantScope {
				t.Errorf("Scope: %v", crd.Spec.Scope)
			}
			if version.Subresources == nil || version.Subresources.Status == nil {
				t.Error("No status subresource")
			}
		})
	}
}
