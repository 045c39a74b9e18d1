package console

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

// checkedPages are the pages whose commands must be run by a test or marked with not-run.
var checkedPages = []string{
	"README.md",
	"docs/for-applications.md",
	"docs/for-gitops.md",
	"docs/get-started.md",
	"docs/security.md",
}

// TestEveryCommandIsRunOrMarked finds the blocks that no test asks for with Blocks.
func TestEveryCommandIsRunOrMarked(t *testing.T) {
	run := blocksOfTests(t)
	for _, page := range checkedPages {
		blocks, err := Read(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			if !b.NotRun && !run[place(b)] {
				t.Errorf("%s: no test runs this block. Run it with console.Blocks, or mark it with \"console not-run\":\n%s", place(b), b.Commands[0].Text)
			}
		}
	}
}

func place(b Block) string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// blocksOfTests returns the blocks that tests ask for, according to their source.
func blocksOfTests(t *testing.T) map[string]bool {
	t.Helper()
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	run := map[string]bool{}
	files := token.NewFileSet()
	err = filepath.WalkDir(filepath.Join(root, "test"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(content), "console.Blocks(") {
			return err
		}
		file, err := parser.ParseFile(files, path, content, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for node := range ast.Preorder(file) {
			arguments, ok := blocksCall(node)
			if !ok {
				continue
			}
			position := files.Position(node.Pos())
			blocks, err := asked(arguments)
			if err != nil {
				t.Errorf("%s: %v", position, err)
			}
			for _, b := range blocks {
				run[place(b)] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// blocksCall returns the arguments of a call of Blocks, except for the first, which is the test.
func blocksCall(node ast.Node) ([]ast.Expr, bool) {
	call, ok := node.(*ast.CallExpr)
	if !ok || len(call.Args) < 2 {
		return nil, false
	}
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || function.Sel.Name != "Blocks" {
		return nil, false
	}
	name, ok := function.X.(*ast.Ident)
	return call.Args[1:], ok && name.Name == "console"
}

func asked(arguments []ast.Expr) ([]Block, error) {
	literals := make([]string, 0, len(arguments))
	for _, argument := range arguments {
		literal, ok := argument.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return nil, fmt.Errorf("the arguments of console.Blocks must be string literals, not %T", argument)
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			return nil, err
		}
		literals = append(literals, value)
	}
	blocks, err := Read(literals[0])
	if err != nil {
		return nil, err
	}
	return selectBlocks(blocks, literals[1:])
}

func TestParse(t *testing.T) {
	content := strings.Join([]string{
		"# Page", "```yaml", "$ not: a command", "```", "",
		"```console", "$ make serve", "```", "",
		"- In a list:", "",
		"  ```console not-run", "  $ helm install a \\", "      --wait", "  NAME: a", "", "  STATUS: deployed", "  $ true", "  ```", "",
		"````console", "$ cat <<'EOF' >file", "```", "EOF", "````",
	}, "\n")
	got, err := parse("page.md", content)
	want := []Block{
		{Page: "page.md", Line: 7, Commands: []Command{{Line: 7, Text: "make serve"}}},
		{Page: "page.md", Line: 13, NotRun: true, Commands: []Command{
			{Line: 13, Text: "helm install a \\\n    --wait", Output: "NAME: a\n\nSTATUS: deployed\n"}, {Line: 18, Text: "true"},
		}},
		{Page: "page.md", Line: 22, Commands: []Command{{Line: 22, Text: "cat <<'EOF' >file\n```\nEOF"}}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("parse: %v (-want +got):\n%s", err, diff)
	}
	for _, wrong := range []string{
		"```console\nmake\n```", "```console\n```", "```console notrun\n$ make\n```", "```console\n$ make", "```console\n$ cat <<EOF\nEO\n```", "```console\n$ make \\\n```",
	} {
		if blocks, err := parse("page.md", wrong); err == nil {
			t.Errorf("%q is accepted as %v", wrong, blocks)
		}
	}
}

func TestSelectBlocks(t *testing.T) {
	page := []Block{
		{Line: 1, Commands: []Command{{Text: "make serve"}}},
		{Line: 2, NotRun: true, Commands: []Command{{Text: "make push"}}},
		{Line: 3, Commands: []Command{{Text: "cd /"}, {Text: "curl x"}}},
	}
	for _, c := range []struct {
		texts []string
		want  []int
	}{
		{nil, []int{1, 3}},
		{[]string{"curl"}, []int{3}},
		{[]string{"make", "curl"}, []int{1, 3}},
		{[]string{"push"}, nil},
		{[]string{"curl", "wget"}, nil},
	} {
		blocks, err := selectBlocks(page, c.texts)
		var got []int
		for _, b := range blocks {
			got = append(got, b.Line)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || (err == nil) != (c.want != nil) {
			t.Errorf("%q: %v (-want +got):\n%s", c.texts, err, diff)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		page, printed string
		want          bool
	}{
		{"acme   True   20s\n", "acme True 3m5s   \n", true},
		{"acme True 20s", "acme False 20s", false},
		{"acme True 20s", "acme True 20s\nbeta True 20s", false},
		{"{\"access_token\":\"eyJhbGciOiJF...\",\"expires_in\":300}", `{"access_token":"eyJhbGciOiJF.eyJpc3Mi.c2ln-_","expires_in":300}`, true},
		{"{\"access_token\":\"eyJhbGciOiJF...\",\"expires_in\":300}", `{"access_token":"eyJhbGciOiJF.eyJpc3Mi.c2ln-_","expires_in":60}`, false},
		{"eyJhbGciOiJF.eyJpc3Mi.c2ln", "eyJ0eXAiOiJ.eyJ4Mi.c2l0", true},
		{"NAME: a\n...\nEND", "NAME: a\nSTATUS: x\n\nEND", true},
		{"NAME: a\n...\nEND", "NAME: a\nEND", true},
		{"NAME: a\n...\nEND", "NAME: a\nEND\nmore", false},
		{"pod/orders-7c9d5f8b66-x2x5k created", "pod/orders-65bcd9d4f7-q8zlm created", true},
		{"expires 2026-11-26T22:06:30Z", "expires 2027-01-02T03:04:05Z", true},
		{"chart-0.1.0-dev.g6e1b345d.tgz", "chart-0.1.0-dev.g9bb128d6.tgz", true},
	} {
		if got := matches(c.page, c.printed); got != c.want {
			t.Errorf("page %q, printed %q: got %v, want %v", c.page, c.printed, got, c.want)
		}
	}
}

// TestShell runs commands as a reader types them.
func TestShell(t *testing.T) {
	blocks, err := parse("page.md", strings.Join([]string{
		"```console", "$ cd sub", "$ export WHO=\"$NAME\"", "$ echo \"$WHO\" in $(basename $PWD)", "you in sub",
		"$ cat <<EOF", "> $WHO", "EOF", "> you", "$ cat", "$ false; echo no >&2; (exit 3)", "no",
		"$ (echo ready; exec sleep 600) &", "ready", "$ jobs -p | wc -l", "1", "```",
	}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	if err := os.Mkdir(filepath.Join(directory, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	shell := NewShell(t, directory, "NAME=me")
	shell.Rewrite = func(command string) string { return strings.ReplaceAll(command, "in $", "at $") }
	shell.Replace = func(printed string) string {
		return strings.NewReplacer("me", "you", "at", "in").Replace(printed)
	}
	shell.Run(t, blocks...)
}
