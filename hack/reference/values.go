package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// schema is the part of a JSON schema that the chart uses.
type schema struct {
	Ref, Type        any
	Description      string
	Enum             []any
	Minimum, Maximum *int
	Items            *schema
	Properties       map[string]schema
	Definitions      map[string]schema
}

// chartValues returns the values of the chart, in the order of values.yaml. A comment that begins with "--"
// describes a value, as helm-docs expects it.
func chartValues(chart string) ([]entry, error) {
	content, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, err
	}
	if content, err = os.ReadFile(filepath.Join(chart, "values.schema.json")); err != nil {
		return nil, err
	}
	var root schema
	if err := json.Unmarshal(bytes.ReplaceAll(content, []byte(`"$ref"`), []byte(`"ref"`)), &root); err != nil {
		return nil, err
	}
	delete(root.Properties, "global") // of Helm
	return root.values(document.Content[0], root, "")
}

// values returns the values below a mapping. The schema must have the same keys.
func (s schema) values(mapping *yaml.Node, root schema, path string) (entries []entry, err error) {
	described := len(s.Properties)
	for pair := range slices.Chunk(mapping.Content, 2) {
		key, value := pair[0], pair[1]
		id := path + key.Value
		property, ok := s.Properties[key.Value]
		if !ok {
			return nil, fmt.Errorf("%s is not in values.schema.json", id)
		}
		described--
		property = property.resolve(root)
		_, description, leaf := strings.Cut("\n"+key.HeadComment, "\n# -- ")
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 && !leaf {
			inner, err := property.values(value, root, id+".")
			if err != nil {
				return nil, err
			}
			entries = append(entries, inner...)
			continue
		}
		preset, err := flow(value)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{
			id: id, values: property.String(), preset: preset, description: strings.ReplaceAll(description, "\n# ", " "),
		})
	}
	if described > 0 {
		return nil, fmt.Errorf("values.schema.json has %d keys in %q that values.yaml doesn't have", described, path)
	}
	return entries, nil
}

func (s schema) resolve(root schema) schema {
	if name, ok := s.Ref.(string); ok {
		return root.Definitions[strings.TrimPrefix(name, "#/definitions/")].resolve(root)
	}
	return s
}

// String returns the type and the allowed values.
func (s schema) String() string {
	if len(s.Enum) > 0 {
		return codes(s.Enum)
	}
	text := strings.NewReplacer("array", "list", "object", "map").Replace(fmt.Sprint(s.Type))
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		text += fmt.Sprintf(", %d to %d", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		text += fmt.Sprintf(", at least %d", *s.Minimum)
	}
	if s.Description != "" {
		text += ": " + strings.TrimSuffix(strings.ToLower(s.Description[:1])+s.Description[1:], ".")
	}
	return text
}

func codes(values []any) string {
	var quoted []string
	for _, value := range values {
		if value == "" {
			value = `""`
		}
		quoted = append(quoted, fmt.Sprintf("`%v`", value))
	}
	return strings.Join(quoted, ", ")
}

// flow returns a value as one line of YAML.
func flow(node *yaml.Node) (string, error) {
	var value any
	if err := node.Decode(&value); err != nil {
		return "", err
	}
	if text, ok := value.(string); ok && text != "" {
		return text, nil
	}
	text, err := json.Marshal(value)
	return string(text), err
}
