package api_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// node is a part of a schema. path is the path that the API server uses in errors, with [] for list
// items and map values.
type node struct {
	path   string
	schema apiextensionsv1.JSONSchemaProps
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

func schemaOf(t *testing.T, k kind) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	return *readCRD(t, k.crd).Spec.Versions[0].Schema.OpenAPIV3Schema
}
