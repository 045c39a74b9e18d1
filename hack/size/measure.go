package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// measure returns all values, by name.
func measure(root, bin string, planes int) (map[string]int, error) {
	measured := map[string]int{}
	biggest, err := circles(root)
	if err != nil {
		return nil, err
	}
	for path, files := range biggest {
		measured[circle+strings.TrimPrefix(path, module)] = files
	}
	if err := countCode(root, measured); err != nil {
		return nil, err
	}
	if measured["modules"], err = directModules(filepath.Join(root, "go.mod")); err != nil {
		return nil, err
	}
	if planes >= 0 {
		measured["control planes"] = planes
	}
	if bin != "" {
		entries, err := os.ReadDir(bin)
		if err != nil {
			return nil, fmt.Errorf("measuring the binaries; run make build: %w", err)
		}
		var image int64
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				return nil, err
			}
			measured["MB "+e.Name()] = steps(info.Size())
			if !strings.HasPrefix(e.Name(), withoutCluster) && e.Name() != tokenAgent {
				image += info.Size() // The image contains the other binaries, and next to nothing else.
			}
		}
		measured["MB image"] = steps(image)
	}
	return measured, nil
}

const (
	module = "github.com/realmkeeper/realmkeeper/"
	// withoutCluster begins the names of the binaries that need no cluster, so they aren't in the image.
	withoutCluster = "realmkeeper-"
	// tokenAgent has an image of its own.
	tokenAgent = "token-agent"
)

// steps rounds up to 2 MB.
func steps(size int64) int { return int((size+2_000_000-1)/2_000_000) * 2 }

func directModules(path string) (int, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, inBlock := 0, false
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "require (":
			inBlock = true
		case line == ")":
			inBlock = false
		case strings.HasSuffix(line, "// indirect"):
		case inBlock && line != "" && !strings.HasPrefix(line, "//"), strings.HasPrefix(line, "require "):
			n++
		}
	}
	return n, nil
}

// print prints a table, and returns an error for each value above its ceiling.
func print(out io.Writer, recorded []value, measured map[string]int) error {
	var problems []error
	other, _ := ceiling(recorded, others)
	row := func(name string, now, limit int, hard bool) {
		kind, label := "baseline", name
		switch {
		case hard && now > limit:
			kind, label = "CEILING", strings.ToUpper(name)
			problems = append(problems, fmt.Errorf("%s has grown by %d, from %d to %d: make it smaller, or raise the ceiling in %s in a commit whose message says why in a line that starts with %q", name, now-limit, limit, now, file, reason))
		case hard:
			kind = "ceiling"
		case now*100 > limit*103:
			label = strings.ToUpper(name)
		}
		fmt.Fprintf(out, "%-58s %7d  %s %d\n", label, now, kind, limit)
	}
	for _, v := range recorded {
		if now, ok := measured[v.name]; ok {
			row(v.name, now, v.number, v.hard)
			delete(measured, v.name)
		}
	}
	var rest []string
	for name := range measured {
		rest = append(rest, name)
	}
	slices.Sort(rest)
	for _, name := range rest {
		if strings.HasPrefix(name, circle) {
			if measured[name] > other {
				row(name, measured[name], other, true)
			}
			continue
		}
		problems = append(problems, fmt.Errorf("%s is %d and has no line in %s: add one with this number", name, measured[name], file))
	}
	return errors.Join(problems...)
}
