package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
)

// failingKey returns the path of the first key, in sorted order, whose value can't be decoded. The
// decoder's error describes an invalid duration or quantity but doesn't name its key.
func failingKey(document []byte) string {
	var content map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &content); err != nil {
		return "the document"
	}
	return find(content, "", func(part map[string]any) map[string]any { return part })
}

// find searches content, the value at path. embed returns a document that contains only the given
// part of content.
func find(content map[string]any, path string, embed func(map[string]any) map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(content)) {
		if decodes(embed(map[string]any{key: content[key]})) {
			continue
		}
		here := strings.TrimPrefix(path+"."+key, ".")
		if inner, ok := content[key].(map[string]any); ok {
			return find(inner, here, func(part map[string]any) map[string]any {
				return embed(map[string]any{key: part})
			})
		}
		return here
	}
	return path
}

func decodes(content map[string]any) bool {
	document, err := json.Marshal(content)
	return err == nil && kjson.UnmarshalCaseSensitivePreserveInts(document, &Instance{}) == nil
}
