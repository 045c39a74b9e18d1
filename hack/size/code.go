package main

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	reasons   = regexp.MustCompile(`(?m)^\tReason\w+ +ConditionReason = "`)
	metrics   = regexp.MustCompile(`"realmkeeper_\w+"`)
	kinds     = regexp.MustCompile(`(?m)^\tKind\w+ +Kind += v1beta1\.`)
	flags     = regexp.MustCompile(`flags\.\w+\((?:&[\w.]+, )?"([\w-]+)"`)
)

// countCode adds lines of code by area, of tests, and the numbers of reasons, metrics, and flags.
func countCode(root string, measured map[string]int) error {
	names := map[string]map[string]bool{"metrics": {}, "flags": {}}
	measured["reasons"], measured["record kinds"] = 0, 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); relative != "." && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "bin" || name == "dist") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if generated.Match(content) {
			return nil
		}
		area := areaOf(relative)
		measured[area] += codeLines(content)
		if area == "code tests" || area == "code hack" {
			return nil
		}
		measured["record kinds"] += len(kinds.FindAll(content, -1))
		measured["reasons"] += len(reasons.FindAll(content, -1))
		for _, name := range metrics.FindAll(content, -1) {
			names["metrics"][string(name)] = true
		}
		for _, match := range flags.FindAllSubmatch(content, -1) {
			names["flags"][filepath.Dir(relative)+" "+string(match[1])] = true
		}
		return nil
	})
	for name, set := range names {
		measured[name] = len(set)
	}
	return err
}

// areaOf returns what a file belongs to: a folder of internal, api, api/verify, cmd, the tests, or everything else.
func areaOf(path string) string {
	folders := strings.Split(filepath.Dir(path), "/")
	switch {
	case strings.HasSuffix(path, "_test.go"), folders[0] == "test", strings.HasPrefix(path, "hack/testkit/"):
		return "code tests"
	case folders[0] == "internal" && len(folders) > 1:
		return "code " + folders[1]
	case strings.HasPrefix(path, "api/verify/"):
		return "code api/verify"
	case folders[0] == "api", folders[0] == "cmd":
		return "code " + folders[0]
	}
	return "code hack" // with docs/ and config/
}

// codeLines counts the lines that contain more than comments.
func codeLines(content []byte) int {
	var s scanner.Scanner
	files := token.NewFileSet()
	source := files.AddFile("", files.Base(), len(content))
	s.Init(source, content, nil, 0)
	lines := map[int]bool{}
	for {
		position, kind, literal := s.Scan()
		if kind == token.EOF {
			return len(lines)
		}
		if kind == token.SEMICOLON && literal == "\n" {
			continue
		}
		first := source.Line(position)
		for line := first; line <= first+strings.Count(literal, "\n"); line++ {
			lines[line] = true
		}
	}
}
