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

// A package without a line of its own is compared with the line others.
const (
	circle = "circle "
	others = circle + "of others"
)

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
	problems := raised(old, now)
	if len(problems) > 0 {
		problems = append(problems, fmt.Errorf("make it smaller instead, or say why it must grow in a line of the commit message that starts with %q", reason))
	}
	return errors.Join(problems...)
}

// raised returns an error for each hard ceiling that is higher than, or missing since, the old ones. A package
// without a line has the ceiling of circle of others, so its line may go if that isn't higher. A new line may be
// higher if one of a package that moved or was split, with at least this number, goes.
func raised(old, now []value) []error {
	var problems []error
	var gone []int // ceilings of packages without a line now
	for _, v := range old {
		limit, found := ceiling(now, v.name)
		switch {
		case !v.hard:
		case limit < 0:
			problems = append(problems, fmt.Errorf("the ceiling of %s, which was %d, was removed", v.name, v.number))
		case limit > v.number:
			problems = append(problems, fmt.Errorf("the ceiling of %s was raised by %d, from %d to %d", v.name, limit-v.number, v.number, limit))
		case !found:
			gone = append(gone, v.number)
		}
	}
	for _, v := range now {
		limit, found := ceiling(old, v.name)
		if !v.hard || found || limit < 0 || v.number <= limit {
			continue
		}
		if i := slices.IndexFunc(gone, func(n int) bool { return n >= v.number }); i >= 0 {
			gone = slices.Delete(gone, i, i+1)
			continue
		}
		problems = append(problems, fmt.Errorf("the ceiling of %s was raised by %d, from %d to %d", v.name, v.number-limit, limit, v.number))
	}
	return problems
}

// ceiling returns the number in the line of a name, or that which a circle without a line is compared with, or -1.
func ceiling(all []value, name string) (number int, found bool) {
	number = -1
	for _, v := range all {
		if v.name == name {
			return v.number, true
		}
		if v.name == others && strings.HasPrefix(name, circle) {
			number = v.number
		}
	}
	return number, false
}
