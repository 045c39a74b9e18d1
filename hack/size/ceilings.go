package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// file has a line for each value: hard or soft, its name, and its number. "#" starts a comment.
const file = "hack/size/ceilings.txt"

// reason starts the line of a commit message that says why a hard ceiling is raised.
const reason = "Ceiling:"

type value struct {
	name   string
	number int
	hard   bool
}

func readCeilings(root string) ([]value, error) {
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, fmt.Errorf("%s is missing: restore it with git checkout HEAD -- %s: %w", file, file, err)
	}
	return parse(content)
}

func parse(content []byte) ([]value, error) {
	var all []value
	scanner := bufio.NewScanner(bytes.NewReader(content))
	for line := 1; scanner.Scan(); line++ {
		text, _, _ := strings.Cut(scanner.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 3 || fields[0] != "hard" && fields[0] != "soft" {
			return nil, fmt.Errorf("%s, line %d: %q must be hard or soft, a name, and a number", file, line, text)
		}
		number, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil || number < 0 {
			return nil, fmt.Errorf("%s, line %d: %q must end with a number", file, line, text)
		}
		name := strings.Join(fields[1:len(fields)-1], " ")
		if slices.ContainsFunc(all, func(v value) bool { return v.name == name }) {
			return nil, fmt.Errorf("%s, line %d: there are two lines for %q; keep the lower one", file, line, name)
		}
		all = append(all, value{name, number, fields[0] == "hard"})
	}
	return all, scanner.Err()
}

// checkRaised fails if a hard ceiling is higher than, or missing since, the commit before the file last changed, unless
// the message of the commit that changed it says why.
func checkRaised(root string, now []value) error {
	git := func(args ...string) (string, error) {
		command := exec.Command("git", append([]string{"-C", root}, args...)...)
		output, err := command.Output()
		return string(output), err
	}
	// A change that isn't committed yet is compared with HEAD, and a committed one with its parent.
	before, message := "HEAD:"+file, ""
	if changed, err := git("status", "--porcelain", "--", file); err == nil && changed == "" {
		commit, err := git("log", "-1", "--format=%H", "--", file)
		if commit = strings.TrimSpace(commit); err != nil || commit == "" {
			return nil // The history isn't known, as in an archive.
		}
		before = commit + "^:" + file
		if message, err = git("log", "-1", "--format=%B", commit); err != nil {
			return err
		}
	}
	content, err := git("show", before)
	if err != nil {
		return nil // The file is new, or the clone is shallow.
	}
	old, err := parse([]byte(content))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(message) {
		if strings.HasPrefix(line, reason) {
			return nil
		}
	}
	var problems []error
	for _, v := range old {
		i := slices.IndexFunc(now, func(n value) bool { return n.name == v.name })
		switch {
		case !v.hard:
		case i < 0:
			problems = append(problems, fmt.Errorf("the ceiling of %s, which was %d, was removed", v.name, v.number))
		case now[i].number > v.number:
			problems = append(problems, fmt.Errorf("the ceiling of %s was raised by %d, from %d to %d", v.name, now[i].number-v.number, v.number, now[i].number))
		}
	}
	if len(problems) > 0 {
		problems = append(problems, fmt.Errorf("make it smaller instead, or say why it must grow in a line of the commit message that starts with %q", reason))
	}
	return errors.Join(problems...)
}
