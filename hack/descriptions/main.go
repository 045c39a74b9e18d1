// Descriptions joins the lines of each paragraph in the descriptions of CRDs. controller-gen keeps
// the line breaks of the Go comments, at which kubectl explain breaks lines a second time.
package main

import (
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	for _, file := range os.Args[1:] {
		if err := rewrite(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// rewrite rewrites a file in the format of controller-gen.
func rewrite(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return fmt.Errorf("parsing %s: %w", file, err)
	}
	joinIn(crd)
	if data, err = yaml.Marshal(crd); err != nil {
		return fmt.Errorf("encoding %s: %w", file, err)
	}
	return os.WriteFile(file, append([]byte("---\n"), data...), 0o644)
}

// joinIn joins the lines of all descriptions in value. A property can have the name description too,
// but its value is no string.
func joinIn(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if text, ok := member.(string); ok && name == "description" {
				v[name] = join(text)
			}
			joinIn(member)
		}
	case []any:
		for _, item := range v {
			joinIn(item)
		}
	}
}

// join joins lines, except at blank lines and before the items of a list.
func join(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		last := len(lines) - 1
		if last < 0 || line == "" || lines[last] == "" || strings.HasPrefix(strings.TrimSpace(line), "- ") {
			lines = append(lines, line)
		} else {
			lines[last] += " " + strings.TrimSpace(line)
		}
	}
	return strings.Join(lines, "\n")
}
