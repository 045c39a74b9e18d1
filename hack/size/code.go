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

// areas are the parts of the product, with the folders that belong to each.
var areas = map[string][]string{
	"api":          {"api/v1beta1"},
	"api/verify":   {"api/verify"},
	"cmd":          {"cmd"},
	"contract":     {"internal/contract/record", "internal/contract/beacon", "internal/contract/heartbeat", "internal/contract/usage", "internal/contract/leader", "internal/contract/keyencryption"},
	"protocol":     {"internal/protocol/oauth", "internal/protocol/signingkey", "internal/protocol/clientsecret", "internal/protocol/statuslist"},
	"operator":     {"internal/operator", "internal/contract/watchlist", "internal/contract/version"},
	"token server": {"internal/tokenserver"},
	"serve":        {"internal/serve/httpserver", "internal/serve/ratelimit", "internal/serve/source", "internal/serve/audit", "internal/serve/buildinfo"},
	"kubeapi":      {"internal/kubeapi/memory"},
	"tools":        {"internal/tools/backup", "internal/tools/restore", "internal/tools/migration", "internal/tools/localissuer", "internal/tools/gitops"},
	"faces":        {"internal/faces/portal", "internal/faces/plugin", "internal/faces/describe", "internal/faces/remedy", "internal/faces/terminal", "internal/serve/untrusted"},
}

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

func areaOf(path string) string {
	if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "test/") || strings.HasPrefix(path, "hack/testkit/") || strings.HasPrefix(path, "internal/operator/simulation/") {
		return "code tests"
	}
	for name, folders := range areas {
		for _, folder := range folders {
			if strings.HasPrefix(path, folder+"/") {
				return "code " + name
			}
		}
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
