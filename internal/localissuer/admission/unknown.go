package admission

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

// Unknown describes the fields of an object that its kind doesn't have, and says which ones it has in their
// place. It doesn't modify the object. The result is empty for an object without rules for its kind.
func (a *Rules) Unknown(obj *unstructured.Unstructured) []string {
	r := a.kinds[obj.GroupVersionKind()]
	if r == nil {
		return nil
	}
	var described []string
	for _, path := range pruning.PruneWithOptions(obj.DeepCopy().Object, r.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		parent, name, ok := lastCut(path)
		if !ok {
			parent, name = "", path
		}
		known := slices.Sorted(maps.Keys(fieldsAt(r.structural, parent)))
		if similar := slices.DeleteFunc(slices.Clone(known), func(field string) bool { return !resembles(field, name) }); len(similar) > 0 {
			described = append(described, fmt.Sprintf("%s does not exist. Did you mean %s?", path, strings.Join(similar, " or ")))
			continue
		}
		described = append(described, fmt.Sprintf("%s does not exist. The fields of %s are: %s.", path, parent, strings.Join(known, ", ")))
	}
	return described
}

func lastCut(path string) (before, after string, found bool) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return path, "", false
	}
	return path[:i], path[i+1:], true
}

var index = regexp.MustCompile(`\[[^\]]*\]`)

// fieldsAt returns the fields that a schema has at a path, such as spec.grants[0].
func fieldsAt(s *structuralschema.Structural, path string) map[string]structuralschema.Structural {
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
	return s.Properties
}

// resembles reports whether two names differ only in case, or one of them is a part of the other.
func resembles(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return strings.Contains(a, b) || strings.Contains(b, a)
}
