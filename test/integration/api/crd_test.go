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

// node is a part of a schema. path is the path that the API server uses in errors, with [] for list
// items and map values.
type node struct {
	path   string
	schema apiextensionsv1.JSONSchemaProps
}

// field returns the field name of n. It is empty for list items, map values, and the root.
func (n node) field() string {
	name := n.path[strings.LastIndex(n.path, ".")+1:]
	if strings.HasSuffix(name, "[]") {
		return ""
	}
	return name
}

// walk returns the root of a schema and all nodes below it. It skips the fields that every
// Kubernetes object has.
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

// abbreviations must not appear as parts of a camel-case name.
var abbreviations = []string{
	"addr", "alg", "ann", "attr", "auth", "aud", "cfg", "cert", "conf", "cred", "ctx", "desc", "dur", "err", "exp",
	"iss", "len", "max", "min", "msg", "ns", "num", "obj", "param", "pwd", "ref", "req", "res", "sec", "sel", "spec",
	"str", "svc", "sub", "tmp", "ttl", "val",
}

// customary lists names that Kubernetes itself, an RFC, or everyday English abbreviates.
var customary = []string{"spec", "realmRef", "secretRef", "max"}

var camelCase = regexp.MustCompile(`^[a-z]+[a-z0-9]*([A-Z]+[a-z0-9]*)*$`)

// TestAPIConventions checks the schema against the Kubernetes API conventions
// (https://github.com/kubernetes/community, api-conventions.md) and this project's own rules:
// everything has a maximum size, every field has a description, and a spec has no defaults.
func TestAPIConventions(t *testing.T) {
	for _, kind := range kinds {
		for _, n := range walk("", schemaOf(t, kind)) {
			t.Run(kind.name+"/"+n.path, func(t *testing.T) {
				// metav1.Condition is defined by Kubernetes.
				if !strings.Contains(n.path, "conditions[]") {
					checkDescription(t, n)
					checkName(t, n)
				}
				checkSize(t, n)
				if n.schema.Type == "" {
					t.Error("No type")
				}
				if n.schema.Default != nil && n.path != "status" {
					t.Errorf("Got default %s, want none: a stored spec must be what its author wrote", n.schema.Default.Raw)
				}
				if ptr.Deref(n.schema.XPreserveUnknownFields, false) {
					t.Error("Unknown fields are preserved")
				}
			})
		}
	}
}

// unset matches a description that states a default or what an unset field means.
var unset = regexp.MustCompile(`(?i)\bdefaults to|\bunset\b`)

// ragged matches a line break inside a paragraph, at which kubectl explain breaks the line again.
var ragged = regexp.MustCompile(`[^\n]\n *[^\n -]`)

func checkDescription(t *testing.T, n node) {
	if line := ragged.FindString(n.schema.Description); line != "" {
		t.Errorf("Description has a line break inside a paragraph: %q", line)
	}
	switch field := n.field(); {
	case field == "": // The field that contains items and values describes them.
	case !strings.HasPrefix(n.schema.Description, field+" "):
		t.Errorf("Description must begin with %q: %q", field, n.schema.Description)
	case !strings.HasSuffix(n.schema.Description, "."):
		t.Errorf("Description must end with a period: %q", n.schema.Description)
	case isOptionalSpec(n) && !unset.MatchString(n.schema.Description):
		t.Errorf("Description must state the default or the effect of leaving the field unset: %q", n.schema.Description)
	}
}

// isOptionalSpec reports whether n is a spec field that its parent doesn't require. Union members
// are excluded: the description of their discriminator says when they are required.
func isOptionalSpec(n node) bool {
	required := []string{
		"spec.realmRef", "spec.realmRef.name", "spec.grants[].name", "spec.grants[].namespaces",
		"spec.grants[].namespaces.names", "spec.grants[].namespaces.selector", "spec.grants[].namespaces.all",
		"spec.releasedClients[].namespace", "spec.releasedClients[].name", "spec.grants",
		"spec.grants[].namespaces.selector.matchExpressions[].key",
		"spec.grants[].namespaces.selector.matchExpressions[].operator",
		"spec.secret.generated", "spec.secret.provided", "spec.secret.hashed",
		"spec.secret.provided.secretRef", "spec.secret.provided.secretRef.name",
		"spec.secret.hashed[].id", "spec.secret.hashed[].hash",
		"spec.publicKeys[].keyId", "spec.serviceAccounts[].name",
		"spec.trustedIssuers[].name", "spec.trustedIssuers[].issuer", "spec.federatedIdentities[].issuer",
		"spec.claims[].name",
		"spec.secret.generated.rotation.endWhenUnused.after", "spec.secret.generated.rotation.endWhenUnused.max",
	}
	return strings.HasPrefix(n.path, "spec.") && !slices.Contains(required, n.path)
}

func checkName(t *testing.T, n node) {
	field := n.field()
	if field == "" || slices.Contains(customary, field) {
		return
	}
	if !camelCase.MatchString(field) {
		t.Errorf("%q is not in lower camel case", field)
	}
	for _, word := range regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`).FindAllString(field, -1) {
		if slices.Contains(abbreviations, strings.ToLower(word)) {
			t.Errorf("%q contains the abbreviation %q", field, word)
		}
	}
}

// checkSize checks that n has a maximum size and that lists declare how they merge.
func checkSize(t *testing.T, n node) {
	s := n.schema
	switch s.Type {
	case "string":
		if s.MaxLength == nil && len(s.Enum) == 0 && s.Format != "date-time" {
			t.Error("String without maxLength or enum")
		}
	case "array":
		if s.MaxItems == nil {
			t.Error("List without maxItems")
		}
		if s.XListType == nil {
			t.Error("List without listType")
		}
	case "object":
		if s.AdditionalProperties != nil && s.MaxProperties == nil {
			t.Error("Map without maxProperties")
		}
	case "integer":
		if s.Minimum == nil {
			t.Error("Integer without minimum")
		}
	case "number":
		t.Error("Floating-point number")
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
			k := kindNamed(name)
			crd := readCRD(t, k.crd)
			version := crd.Spec.Versions[0]
			columns := map[int32][]string{}
			for _, c := range version.AdditionalPrinterColumns {
				columns[c.Priority] = append(columns[c.Priority], c.Name)
			}
			if !slices.Equal(columns[0], tc.wantColumns) || !slices.Equal(columns[1], tc.wantWide) {
				t.Errorf("Columns: got %v, want %v and %v", columns, tc.wantColumns, tc.wantWide)
			}
			if !slices.Equal(crd.Spec.Names.ShortNames, []string{tc.wantShortName}) {
				t.Errorf("Short names: got %v, want %s", crd.Spec.Names.ShortNames, tc.wantShortName)
			}
			if !slices.Equal(crd.Spec.Names.Categories, []string{"realmkeeper"}) {
				t.Errorf("Categories: got %v, want realmkeeper", crd.Spec.Names.Categories)
			}
			if crd.Spec.Scope != tc.wantScope {
				t.Errorf("Scope: got %v, want %v", crd.Spec.Scope, tc.wantScope)
			}
			if version.Subresources == nil || version.Subresources.Status == nil {
				t.Error("No status subresource")
			}
		})
	}
}
