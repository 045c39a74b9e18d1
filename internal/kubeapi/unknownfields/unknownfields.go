// Package unknownfields finds the fields of objects that their kind doesn't have.
package unknownfields

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Describe describes the fields of an object that its schema doesn't have, and says which ones it has in their
// place. It doesn't modify the object.
func Describe(obj *unstructured.Unstructured, root *structuralschema.Structural) []string {
	var described []string
	for _, path := range pruning.PruneWithOptions(obj.DeepCopy().Object, root, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		parent, name, ok := lastCut(path)
		if !ok {
			parent, name = "", path
		}
		if line := describe(root, parent, name); !slices.Contains(described, line) {
			described = append(described, line)
		}
	}
	return described
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

// describe describes a field that does not exist at a path.
func describe(root *structuralschema.Structural, parent, name string) string {
	path := strings.TrimPrefix(parent+"."+name, ".")
	schema := schemaAt(root, parent)
	if schema != nil && len(schema.Properties) == 0 {
		return fmt.Sprintf("%s must be %s, not an object.", parent, described(schema.Type))
	}
	if replacement, ok := formerFields[name]; ok {
		return path + " does not exist. " + replacement
	}
	var known []string
	if schema != nil {
		known = slices.Sorted(maps.Keys(schema.Properties))
	}
	for _, alike := range []func(a, b string) bool{strings.EqualFold, resembles} {
		if similar := slices.DeleteFunc(slices.Clone(known), func(field string) bool { return !alike(field, name) }); len(similar) > 0 {
			return fmt.Sprintf("%s does not exist. Did you mean %s?", path, strings.Join(similar, " or "))
		}
	}
	return fmt.Sprintf("%s does not exist. The fields of %s are: %s.", path, parent, strings.Join(known, ", "))
}

func described(jsonType string) string {
	if jsonType == "array" {
		return "a list"
	}
	return "of type " + jsonType
}

func lastCut(path string) (before, after string, found bool) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return path, "", false
	}
	return path[:i], path[i+1:], true
}

var index = regexp.MustCompile(`\[[^\]]*\]`)

// schemaAt returns the schema at a path, such as spec.grants[0], or nil.
func schemaAt(s *structuralschema.Structural, path string) *structuralschema.Structural {
	for segment := range strings.SplitSeq(path, ".") {
		if segment == "" {
			break
		}
		below, ok := s.Properties[index.ReplaceAllString(segment, "")]
		if !ok {
			return nil
		}
		s = &below
		for range index.FindAllString(segment, -1) {
			if s.Items == nil {
				return nil
			}
			s = s.Items
		}
	}
	return s
}

// resembles reports whether one of two names is a part of the other, in any case.
func resembles(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return strings.Contains(a, b) || strings.Contains(b, a)
}
