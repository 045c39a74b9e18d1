package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// entry is a value, a key, or a flag.
type entry struct {
	// id is what sections.txt can name: the key, or the command and the flag.
	id string
	// name is what the page shows. It defaults to the id.
	name string
	// values are the type and the allowed values.
	values string
	// preset is the default.
	preset, description string
}

// sections knows the section that explains each key and flag, by key, command, or flag.
type sections struct {
	explains map[string]string
	titles   map[string]string
	used     map[string]bool
	problems []error
}

// loadSections reads lines with a section and what it explains.
func loadSections(file string) (*sections, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := &sections{explains: map[string]string{}, titles: map[string]string{}, used: map[string]bool{}}
	for line := range strings.Lines(string(content)) {
		section, ids, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		if s.titles[section], err = title(section); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for id := range strings.SplitSeq(ids, ", ") {
			s.explains[id] = section
		}
	}
	return s, nil
}

var (
	codeBlock = regexp.MustCompile("(?s)\n *```.*?\n *```")
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInSlug = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// title returns the heading of a section, "page#anchor", or of a page.
func title(section string) (string, error) {
	page, anchor, _ := strings.Cut(section, "#")
	content, err := os.ReadFile(filepath.Join("docs", page))
	if err != nil {
		return "", err
	}
	for _, match := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(content), ""), -1) {
		slug := strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")
		if anchor == "" || slug == anchor {
			return match[1], nil
		}
	}
	return "", fmt.Errorf("docs/%s has no section #%s", page, anchor)
}

// find returns the section of an id: that of the id itself, else of the nearest key or command around it, else of
// its last name alone.
func (s *sections) find(id string) string {
	const separators = ". "
	id = strings.ReplaceAll(id, "[]", "") // of lists
	candidates := []string{id}
	for around := id; strings.ContainsAny(around, separators); candidates = append(candidates, around) {
		around = around[:strings.LastIndexAny(around, separators)]
	}
	for _, candidate := range append(candidates, id[strings.LastIndexAny(id, separators)+1:]) {
		if section, ok := s.explains[candidate]; ok {
			s.used[candidate] = true
			return section
		}
	}
	return ""
}

// table writes a table of entries.
func (s *sections) table(out *strings.Builder, what string, entries []entry) {
	fmt.Fprintf(out, "| %s | Type, or values | Default | Description | See |\n| --- | --- | --- | --- | --- |\n", what)
	for _, e := range entries {
		section := s.find(e.id)
		if e.description == "" {
			s.problems = append(s.problems, fmt.Errorf("%s has no description", e.id))
		}
		if section == "" {
			s.problems = append(s.problems, fmt.Errorf("no section explains %s; add it to one in hack/reference/sections.txt", e.id))
		}
		if e.name == "" {
			e.name = "`" + e.id + "`"
		}
		if e.preset != "" {
			e.preset = "`" + e.preset + "`"
		}
		cells := []string{e.name, e.values, e.preset, e.description, fmt.Sprintf("[%s](%s)", s.titles[section], section)}
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(strings.Join(strings.Fields(cell), " "), "|", `\|`)
		}
		fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
	}
}

// check returns what is missing, and what sections.txt names although it doesn't exist.
func (s *sections) check() error {
	for _, id := range slices.Sorted(maps.Keys(s.explains)) {
		if !s.used[id] {
			s.problems = append(s.problems, fmt.Errorf("%s in hack/reference/sections.txt is no key, command, or flag", id))
		}
	}
	return errors.Join(s.problems...)
}
