package beside_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

// section is the part of a page that is about one program.
type section string

// readDocument returns a page in docs.
func readDocument(t *testing.T, path string) string {
	t.Helper()
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "docs", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// sections returns the sections of a page by their headings of the second level.
func sections(page string) map[string]section {
	all := map[string]section{}
	for _, part := range strings.Split("\n"+page, "\n## ")[1:] {
		heading, content, _ := strings.Cut(part, "\n")
		all[heading] = section(content)
	}
	return all
}

func readSection(t *testing.T, page, heading string) section {
	t.Helper()
	content, ok := sections(readDocument(t, "works-with/"+page))[heading]
	if !ok {
		t.Fatalf("docs/works-with/%s has no section %q", page, heading)
	}
	return content
}

// block returns the only block with this info string.
func (s section) block(t *testing.T, info string) string {
	t.Helper()
	parts := strings.Split(string(s), "\n```"+info+"\n")
	if len(parts) != 2 {
		t.Fatalf("%d blocks with the info string %s, want 1", len(parts)-1, info)
	}
	content, _, _ := strings.Cut(parts[1], "\n```")
	return content + "\n"
}

var tableRow = regexp.MustCompile(`(?m)^\| (.+?) \| (.+?) \|`)

// outcomes returns the second column of the table whose first column has this heading, by the names in the first one. A
// row of the page can have several names.
func (s section) outcomes(heading string) map[string]string {
	_, table, _ := strings.Cut(string(s), "\n| "+heading+" |")
	table, _, _ = strings.Cut(table, "\n\n")
	all := map[string]string{}
	for _, row := range tableRow.FindAllStringSubmatch(table, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			all[name] = strings.ReplaceAll(row[2], "`", "")
		}
	}
	delete(all, "---")
	return all
}
