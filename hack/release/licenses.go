package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
)

// licenseFile matches the names of license files in the root of a module.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)([.-].*)?$`)

// minCoverage is the percentage of a license file that must be the text of known licenses.
const minCoverage = 75

// moduleLicenses returns the SPDX identifiers of the licenses of modules, read from the module cache.
// A module is missing from the result if its license isn't recognized.
func moduleLicenses(ctx context.Context, o options, modules []module) (map[module][]string, error) {
	args := []string{"list", "-m", "-json"}
	licenses := map[module][]string{}
	for _, m := range modules {
		if m.path == "stdlib" {
			licenses[m] = []string{"BSD-3-Clause"}
			continue
		}
		args = append(args, m.path)
	}
	list := command(ctx, o, "go", args...)
	var out bytes.Buffer
	list.Stdout = &out
	list.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	if err := list.Run(); err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	for decoder := json.NewDecoder(&out); ; {
		var found struct{ Path, Version, Dir string }
		err := decoder.Decode(&found)
		if errors.Is(err, io.EOF) {
			return licenses, nil
		}
		if err != nil {
			return nil, err
		}
		ids, err := licensesIn(found.Dir)
		if err != nil {
			return nil, err
		}
		if len(ids) > 0 {
			licenses[module{found.Path, found.Version}] = ids
		}
	}
}

// licensesIn returns the licenses in the root of a module, sorted.
func licensesIn(dir string) ([]string, error) {
	if dir == "" { // not in the module cache
		return nil, nil
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, file := range files {
		if file.IsDir() || !licenseFile.MatchString(file.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return nil, err
		}
		if coverage := licensecheck.Scan(text); coverage.Percent >= minCoverage {
			for _, match := range coverage.Match {
				ids = append(ids, match.ID)
			}
		}
	}
	slices.SortFunc(ids, strings.Compare)
	return slices.Compact(ids), nil
}

func licenseChoice(ids ...string) *cdx.Licenses {
	if len(ids) == 0 {
		return nil
	}
	var choice cdx.Licenses
	for _, id := range ids {
		choice = append(choice, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	return &choice
}

// listLicenses writes a table of the modules and npm packages in the built programs, by license.
func listLicenses(ctx context.Context, o options, out io.Writer) error {
	b := newBill(o)
	programs, err := os.ReadDir(filepath.Join(o.source, "cmd"))
	if err != nil {
		return err
	}
	for _, p := range programs {
		content, err := os.ReadFile(filepath.Join(o.licenses, p.Name()))
		if err != nil {
			return err
		}
		if err := b.addProgram(program{name: p.Name(), content: content}); err != nil {
			return fmt.Errorf("read %s: %w", p.Name(), err)
		}
	}
	licenses, err := moduleLicenses(ctx, o, slices.Collect(maps.Keys(b.modules)))
	if err != nil {
		return err
	}
	uses := map[string][]string{}
	for m := range b.modules {
		id := cmp.Or(strings.Join(licenses[m], " and "), "unknown")
		uses[id] = append(uses[id], "`"+m.path+"`")
	}
	packages, err := npmPackages(o.source)
	if err != nil {
		return err
	}
	for _, p := range packages {
		id := (*p.Licenses)[0].License.ID
		uses[id] = append(uses[id], "`"+p.Name+"`")
	}
	fmt.Fprint(out, "| License | Modules and packages |\n| --- | --- |\n")
	for _, id := range slices.Sorted(maps.Keys(uses)) {
		slices.Sort(uses[id])
		fmt.Fprintf(out, "| %s | %s |\n", id, strings.Join(uses[id], ", "))
	}
	return nil
}
