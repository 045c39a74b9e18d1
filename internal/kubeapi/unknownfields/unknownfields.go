// Package unknownfields finds the fields of objects that their CustomResourceDefinition doesn't have, without the
// libraries of an API server.
package unknownfields

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/config/crd"
)

// field is the part of a schema that says which fields there are.
type field struct {
	Type       string            `json:"type"`
	Properties map[string]*field `json:"properties"`
	Items      *field            `json:"items"`
	// Values is the schema of the values of a map, which can have any keys.
	Values *field `json:"additionalProperties"`
}

// kinds returns the schemas of the CustomResourceDefinitions, which are a part of this program.
var kinds = sync.OnceValue(func() map[schema.GroupVersionKind]*field {
	files, err := fs.Glob(crd.Files, "bases/*.yaml")
	must(err)
	all := map[schema.GroupVersionKind]*field{}
	for _, file := range files {
		content, err := crd.Files.ReadFile(file)
		must(err)
		var definition struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct{ OpenAPIV3Schema *field }
				}
			}
		}
		must(yaml.Unmarshal(content, &definition))
		spec := &definition.Spec
		for _, version := range spec.Versions {
			all[schema.GroupVersionKind{Group: spec.Group, Version: version.Name, Kind: spec.Names.Kind}] = version.Schema.OpenAPIV3Schema
		}
	}
	return all
})

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Describe describes the fields of an object that its kind doesn't have, and says which ones it has in their
// place. The result is empty for an object of another API.
func Describe(obj *unstructured.Unstructured) []string {
	root := kinds()[obj.GroupVersionKind()]
	if root == nil {
		return nil
	}
	var described []string
	for _, name := range slices.Sorted(maps.Keys(obj.Object)) {
		if name != "apiVersion" && name != "kind" && name != "metadata" {
			root.describeMember(obj.Object, "", name, &described)
		}
	}
	return described
}

// describeMember adds the descriptions of the unknown fields in a member of an object at a path.
func (f *field) describeMember(object map[string]any, path, name string, described *[]string) {
	at := strings.TrimPrefix(path+"."+name, ".")
	switch below := f.Properties[name]; {
	case below != nil:
		below.describeValue(object[name], at, described)
	case f.Values != nil:
		f.Values.describeValue(object[name], at, described)
	default:
		if line := f.describe(path, name); !slices.Contains(*described, line) {
			*described = append(*described, line)
		}
	}
}

func (f *field) describeValue(value any, path string, described *[]string) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			f.describeMember(v, path, name, described)
		}
	case []any:
		for i := range v {
			if f.Items != nil {
				f.Items.describeValue(v[i], fmt.Sprintf("%s[%d]", path, i), described)
			}
		}
	}
}

// formerFields says what to use in place of fields with a name that suggests nothing: those of earlier
// versions of the API, which other descriptions and habits also suggest.
var formerFields = map[string]string{
	"expiresAt":           "Did you mean expirationTime?",
	"rotateAfter":         "Did you mean rotationRequestTime?",
	"endWhenUnused":       "Did you mean expireWhenUnused?",
	"serviceAccounts":     "List them in identities, such as identities: [{name: worker, serviceAccount: {name: worker}}].",
	"federatedIdentities": "List them in identities, such as identities: [{name: ci, issuer: github, subject: ...}].",
	"releasedClients":     "Run \"kubectl realmkeeper release\" instead.",
	"all":                 "Did you mean from: All?",
}

// describe describes a field that the object at a path doesn't have.
func (f *field) describe(parent, name string) string {
	path := strings.TrimPrefix(parent+"."+name, ".")
	if len(f.Properties) == 0 {
		return fmt.Sprintf("%s must be %s, not an object.", parent, describedType(f.Type))
	}
	if replacement, ok := formerFields[name]; ok {
		return path + " does not exist. " + replacement
	}
	known := slices.Sorted(maps.Keys(f.Properties))
	for _, alike := range []func(a, b string) bool{strings.EqualFold, resembles} {
		if similar := slices.DeleteFunc(slices.Clone(known), func(field string) bool { return !alike(field, name) }); len(similar) > 0 {
			return fmt.Sprintf("%s does not exist. Did you mean %s?", path, strings.Join(similar, " or "))
		}
	}
	return fmt.Sprintf("%s does not exist. The fields of %s are: %s.", path, cmp.Or(parent, "the object"), strings.Join(known, ", "))
}

func describedType(jsonType string) string {
	if jsonType == "array" {
		return "a list"
	}
	return "of type " + jsonType
}

// resembles reports whether one of two names is a part of the other, in any case.
func resembles(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return strings.Contains(a, b) || strings.Contains(b, a)
}
