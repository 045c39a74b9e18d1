package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// permission is a rule of a role. The comment before the rule, or before its marker, says what it is for.
type permission struct{ role, namespace, resources, verbs, reason string }

// permissions returns a table of all rules: those that markers in the operator define, and those in config/rbac.
func permissions() (string, error) {
	rules, err := markedRules("internal/operator")
	if err != nil {
		return "", err
	}
	files, err := filepath.Glob("config/rbac/*.yaml")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		if filepath.Base(file) == "role.yaml" { // from the markers
			continue
		}
		written, err := writtenRules(file)
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		rules = append(rules, written...)
	}
	slices.SortStableFunc(rules, func(a, b permission) int {
		return cmp.Or(strings.Compare(a.role, b.role), strings.Compare(a.namespace, b.namespace))
	})
	var out strings.Builder
	var problems []error
	out.WriteString("| Role | Namespace | Resources | Verbs | Reason |\n| --- | --- | --- | --- | --- |\n")
	for i, r := range rules {
		if i+1 < len(rules) {
			next := &rules[i+1]
			if same := (permission{next.role, next.namespace, r.resources, next.verbs, next.reason}); same == r {
				next.resources = r.resources + "; " + next.resources
				continue
			}
		}
		if r.reason == "" {
			problems = append(problems, fmt.Errorf("no comment says why the role %s has permission to %s %s", r.role, r.verbs, r.resources))
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", r.role, r.namespace, r.resources, r.verbs, r.reason)
	}
	return out.String(), errors.Join(problems...)
}

var marker = regexp.MustCompile(`^// \+kubebuilder:rbac:(.*)$`)

// markedRules returns the rules of the markers below a directory. The last paragraph of the comment before the
// markers is their reason.
func markedRules(dir string) (rules []permission, err error) {
	root := os.DirFS(dir)
	err = fs.WalkDir(root, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		content, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		var reason []string
		marked := false
		for line := range strings.SplitSeq(string(content), "\n") {
			text, isComment := strings.CutPrefix(line, "//")
			match := marker.FindStringSubmatch(line)
			switch {
			case match != nil:
				rules = append(rules, parseMarker(match[1], strings.Join(reason, " ")))
				marked = true
			case isComment && strings.TrimSpace(text) != "" && !marked:
				reason = append(reason, strings.TrimSpace(text))
			case isComment:
				reason, marked = strings.Fields(text), false
			default:
				reason, marked = nil, false
			}
		}
		return nil
	})
	return rules, err
}

func parseMarker(text, reason string) permission {
	p := permission{role: "realmkeeper-operator", reason: reason}
	var group, resources, names string
	for field := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(field, "=")
		value = strings.ReplaceAll(strings.Trim(value, `"`), ";", ", ")
		switch name {
		case "groups":
			group = value
		case "resources":
			resources = value
		case "resourceNames":
			names = value
		case "verbs":
			p.verbs = value
		case "namespace":
			p.namespace = value
		case "roleName":
			p.role = value
		}
	}
	p.resources = resourceNames([]string{group}, resources, names)
	return p
}

func resourceNames(groups []string, resources, names string) string {
	text := "`" + resources + "`"
	if group := strings.Join(groups, "`, `"); group != "" {
		text += " of " + strings.ReplaceAll("`"+group+"`", "``", "core")
	}
	if names != "" {
		text += ": `" + names + "`"
	}
	return text
}

// writtenRules returns the rules of the roles in a manifest.
func writtenRules(file string) (rules []permission, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for decoder := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var role struct {
			Metadata struct{ Name, Namespace string }
			Rules    []yaml.Node
		}
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			return rules, nil
		} else if err != nil {
			return nil, err
		}
		for _, node := range role.Rules {
			var rule struct {
				APIGroups     []string `yaml:"apiGroups"`
				Resources     []string `yaml:"resources"`
				ResourceNames []string `yaml:"resourceNames"`
				Verbs         []string `yaml:"verbs"`
			}
			if err := node.Decode(&rule); err != nil {
				return nil, err
			}
			reason := strings.ReplaceAll(strings.TrimPrefix(node.HeadComment, "# "), "\n# ", " ")
			rules = append(rules, permission{
				role.Metadata.Name, role.Metadata.Namespace,
				resourceNames(rule.APIGroups, strings.Join(rule.Resources, ", "), strings.Join(rule.ResourceNames, ", ")),
				strings.Join(rule.Verbs, ", "), reason,
			})
		}
	}
}

// licenses returns a table of the modules and packages in the programs, by license.
func licenses() (string, error) {
	bin, err := filepath.Abs("bin")
	if err != nil {
		return "", err
	}
	list := exec.Command("go", "run", "-C", "hack/release", ".", "--licenses", bin)
	list.Stderr = os.Stderr
	out, err := list.Output()
	return string(out), err
}

var testLink = regexp.MustCompile("\\[`((?:Test|Fuzz)\\w+)`\\]\\(([^)]+)\\)")

// checkTests fails if a page names a test that isn't in the file to which its link leads.
func checkTests(page string) error {
	content, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	var problems []error
	for _, match := range testLink.FindAllStringSubmatch(string(content), -1) {
		file, err := os.ReadFile(filepath.Join(filepath.Dir(page), match[2]))
		if err == nil && !strings.Contains(string(file), "func "+match[1]+"(") {
			err = fmt.Errorf("%s has no %s", match[2], match[1])
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", page, err))
		}
	}
	return errors.Join(problems...)
}
