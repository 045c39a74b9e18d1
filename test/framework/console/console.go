// Package console runs the commands that documentation shows in blocks with the info string console,
// and compares what they print with what the page shows. A block with the info string "console
// not-run" isn't run. In the pages of TestEveryCommandIsRunOrMarked, each other block is.
package console

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

// Block is a console block of a page.
type Block struct {
	// Page is the path of the page in the repository, and Line the line of the block's first command.
	Page string
	Line int
	// NotRun is set if the block is marked with not-run.
	NotRun   bool
	Commands []Command
}

// Command is a command and what the page shows below it.
type Command struct {
	// Line is the line of the command in the page.
	Line int
	// Text can have several lines: after a backslash, and in a here-document.
	Text string
	// Output is empty if the page shows none.
	Output string
}

// Blocks returns the blocks of a page that a test runs: all that aren't marked with not-run, or, if
// texts are given, only those that contain one of them in a command. Page and texts must be string
// literals, because TestEveryCommandIsRunOrMarked reads them from the source of the test.
func Blocks(t testing.TB, page string, texts ...string) []Block {
	t.Helper()
	blocks, err := Read(page)
	if err != nil {
		t.Fatal(err)
	}
	selected, err := selectBlocks(blocks, texts)
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	return selected
}

var (
	errNoBlock  = errors.New("no console block to run")
	errNoText   = errors.New("no command to run contains this text")
	errNoPrompt = errors.New(`a console block must start with a command after "$ "`)
	errUnknown  = errors.New(`only not-run can follow console`)
	errUnclosed = errors.New("the block or its last command doesn't end")
)

func selectBlocks(blocks []Block, texts []string) ([]Block, error) {
	blocks = slices.DeleteFunc(slices.Clone(blocks), func(b Block) bool { return b.NotRun })
	if len(blocks) == 0 {
		return nil, errNoBlock
	}
	if len(texts) == 0 {
		return blocks, nil
	}
	var selected []Block
	used := map[string]bool{}
	for _, b := range blocks {
		matches := false
		for _, text := range texts {
			if slices.ContainsFunc(b.Commands, func(c Command) bool { return strings.Contains(c.Text, text) }) {
				matches, used[text] = true, true
			}
		}
		if matches {
			selected = append(selected, b)
		}
	}
	for _, text := range texts {
		if !used[text] {
			return nil, fmt.Errorf("%w: %s", errNoText, text)
		}
	}
	return selected, nil
}

// Read returns all console blocks of a page.
func Read(page string) ([]Block, error) {
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		return nil, err
	}
	return parse(page, string(content))
}

// fence matches the first line of a block in a fence, which can be in a list.
var fence = regexp.MustCompile("^( *)(`{3,})([^`]*)$")

// parse reads the console blocks, and skips all other blocks.
func parse(page, content string) (blocks []Block, err error) {
	lines := strings.Split(content, "\n")
	for i := 0; i < len(lines); i++ {
		opened := fence.FindStringSubmatch(lines[i])
		if opened == nil {
			continue
		}
		indent, ticks, info := opened[1], opened[2], strings.Fields(opened[3])
		first := i + 1
		var body []string
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != ticks; i++ {
			body = append(body, strings.TrimPrefix(lines[i], indent))
		}
		if len(info) == 0 || info[0] != "console" {
			continue
		}
		block, err := parseBlock(info[1:], body, first+1)
		if err == nil && i == len(lines) {
			err = errUnclosed
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", page, first, err)
		}
		block.Page = page
		blocks = append(blocks, block)
	}
	return blocks, nil
}

// hereDocument matches the start of a here-document in a command.
var hereDocument = regexp.MustCompile(`<<-?\s*['"]?(\w+)['"]?`)

func parseBlock(marks, body []string, line int) (Block, error) {
	block := Block{Line: line}
	switch {
	case slices.Equal(marks, []string{"not-run"}):
		block.NotRun = true
	case len(marks) > 0:
		return block, fmt.Errorf("%w, but not %q", errUnknown, strings.Join(marks, " "))
	}
	for i := 0; i < len(body); i++ {
		text, ok := strings.CutPrefix(body[i], "$ ")
		if !ok {
			if len(block.Commands) == 0 {
				return block, errNoPrompt
			}
			last := &block.Commands[len(block.Commands)-1]
			last.Output += body[i] + "\n"
			continue
		}
		command := Command{Line: line + i, Text: text}
		end := ""
		for {
			if start := hereDocument.FindStringSubmatch(body[i]); end == "" && start != nil {
				end = start[1]
			} else if end != "" && strings.TrimSpace(body[i]) == end {
				break
			}
			if end == "" && !strings.HasSuffix(body[i], `\`) {
				break
			}
			i++
			if i == len(body) {
				return block, errUnclosed
			}
			command.Text += "\n" + body[i]
		}
		block.Commands = append(block.Commands, command)
	}
	if len(block.Commands) == 0 {
		return block, errNoPrompt
	}
	return block, nil
}
