package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
)

// culprit returns the path of the key whose value makes the decoding of document fail.
// The decoder tells what is wrong with a duration or a quantity, but not where.
func culprit(document []byte) string {
	var content map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &content); err != nil {
		return "the document"
	}
	return find(content, "", func(part map[string]any) map[string]any { return part })
}

// find looks for the culprit in content, the value at path; embed puts a part of that
// value back into an otherwise empty document.
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
