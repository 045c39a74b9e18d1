package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var errNotes = errors.New("CHANGELOG.md describes no changes")

// section matches the heading of a version as in Keep a Changelog: "## [1.2.3] - 2026-01-31" or
// "## [Unreleased]".
var section = regexp.MustCompile(`^## \[([^\]]+)\]`)

// link matches a Markdown link to a file of the repository.
var link = regexp.MustCompile(`\]\(([A-Za-z][^):]*)\)`)

// releaseNotes returns the section of the version in the changelog, otherwise the section
// Unreleased. Links to files of the repository become links to the version, because a release page
// isn't part of the tree.
func releaseNotes(changelog, version string) (string, error) {
	sections := map[string]string{}
	var current string
	for line := range strings.Lines(changelog) {
		if match := section.FindStringSubmatch(line); match != nil {
			current = match[1]
		} else if current != "" {
			sections[current] += line
		}
	}
	wanted := strings.TrimPrefix(version, "v")
	notes, ok := sections[wanted]
	if !ok {
		wanted, notes = "Unreleased", sections["Unreleased"]
	}
	if !strings.Contains(notes, "\n- ") && !strings.HasPrefix(notes, "- ") {
		return "", fmt.Errorf("%w of %s; add a section [%s] with at least one list item, or items to [Unreleased]",
			errNotes, version, strings.TrimPrefix(version, "v"))
	}
	notes = unwrap(strings.TrimSpace(notes))
	return link.ReplaceAllString(notes, "]("+homepage+"/blob/"+version+"/$1)") + "\n", nil
}

// unwrap joins the lines of paragraphs and list items, because release pages show line breaks.
func unwrap(text string) string {
	var b strings.Builder
	previous := ""
	for line := range strings.SplitSeq(text, "\n") {
		content := strings.TrimLeft(line, " ")
		switch {
		case b.Len() == 0:
		case content == "", previous == "", strings.HasPrefix(content, "- "), strings.HasPrefix(previous, "#"):
			b.WriteString("\n")
		default:
			b.WriteString(" ")
			line = content
		}
		b.WriteString(line)
		previous = content
	}
	return b.String()
}
