package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// program is a binary in a finished artifact.
type program struct {
	artifact string // the archive, or the digest of the image
	name     string
	platform platform
	content  []byte
}

// module is a version of a module in a binary.
type module struct{ path, version string }

func (m module) url() string { return "pkg:golang/" + m.path + "@" + m.version }

// writeSBOM writes the bill of materials of all programs. Everything in it comes from the binaries in
// the artifacts, except for the licenses, which come from the module cache, and the npm packages
// that the portal embeds.
func writeSBOM(ctx context.Context, o options, programs []program, dir string) error {
	b := newBill(o)
	for _, p := range programs {
		if err := b.addProgram(p); err != nil {
			return fmt.Errorf("read %s of %s: %w", p.name, p.artifact, err)
		}
	}
	packages, err := npmPackages(o.source)
	if err != nil {
		return err
	}
	b.addPackages(packages)
	licenses, err := moduleLicenses(ctx, o, slices.Collect(maps.Keys(b.modules)))
	if err != nil {
		return err
	}
	content, err := b.encode(licenses)
	if err != nil {
		return err
	}
	return writeFile(dir, "sbom.cdx.json", content)
}

// bill collects the components of the release.
type bill struct {
	product  cdx.Component
	created  time.Time
	programs []cdx.Component
	modules  map[module]bool
	packages []cdx.Component
	// uses maps the reference of a component to those of its dependencies.
	uses map[string][]string
}

func newBill(o options) *bill {
	product := module{"github.com/realmkeeper/realmkeeper", o.version}
	return &bill{
		created: o.created,
		product: cdx.Component{
			BOMRef: product.url(), PackageURL: product.url(), Type: cdx.ComponentTypeApplication,
			Name: name, Version: o.version, Licenses: licenseChoice("Apache-2.0"),
			ExternalReferences: &[]cdx.ExternalReference{{Type: cdx.ERTypeVCS, URL: homepage}},
		},
		modules: map[module]bool{},
		uses:    map[string][]string{},
	}
}

// addProgram adds a program and the modules that the linker recorded in it.
func (b *bill) addProgram(p program) error {
	info, err := buildinfo.Read(bytes.NewReader(p.content))
	if err != nil {
		return err
	}
	ref := p.artifact + "/" + p.name
	var uses []string
	for _, dependency := range info.Deps {
		if dependency.Replace != nil {
			dependency = dependency.Replace
		}
		m := module{dependency.Path, dependency.Version}
		b.modules[m] = true
		uses = append(uses, m.url())
	}
	std := module{"stdlib", strings.TrimPrefix(info.GoVersion, "go")}
	b.modules[std] = true
	b.uses[ref] = append(uses, std.url())
	b.uses[b.product.BOMRef] = append(b.uses[b.product.BOMRef], ref)
	b.programs = append(b.programs, cdx.Component{
		BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: p.name, Version: b.product.Version,
		Licenses: b.product.Licenses,
		Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(p.content))}},
		Properties: &[]cdx.Property{
			{Name: "realmkeeper:artifact", Value: p.artifact},
			{Name: "realmkeeper:platform", Value: p.platform.String()},
			{Name: "realmkeeper:go", Value: info.GoVersion},
		},
	})
	return nil
}

// addPackages adds the npm packages that the portal embeds.
func (b *bill) addPackages(packages []cdx.Component) {
	b.packages = packages
	for _, p := range b.programs {
		if p.Name != "portal" {
			continue
		}
		for _, embedded := range packages {
			b.uses[p.BOMRef] = append(b.uses[p.BOMRef], embedded.BOMRef)
		}
	}
}

func (b *bill) encode(licenses map[module][]string) ([]byte, error) {
	components := slices.Concat(b.programs, b.packages)
	for m := range b.modules {
		component := cdx.Component{
			BOMRef: m.url(), PackageURL: m.url(), Type: cdx.ComponentTypeLibrary, Name: m.path, Version: m.version,
			Licenses: licenseChoice(licenses[m]...),
		}
		if m.path == "stdlib" {
			component.CPE = "cpe:2.3:a:golang:go:" + m.version + ":-:*:*:*:*:*:*"
		}
		components = append(components, component)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	var dependencies []cdx.Dependency
	for _, ref := range slices.Sorted(maps.Keys(b.uses)) {
		uses := slices.Compact(slices.Sorted(slices.Values(b.uses[ref])))
		dependencies = append(dependencies, cdx.Dependency{Ref: ref, Dependencies: &uses})
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: b.created.Format(time.RFC3339),
		Component: &b.product,
		Tools: &cdx.ToolsChoice{Components: &[]cdx.Component{{
			Type: cdx.ComponentTypeApplication, Name: "hack/release", Version: b.product.Version,
		}}},
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	// The serial number depends only on the content, so that the file is reproducible.
	unnumbered, err := encodeBOM(bom)
	if err != nil {
		return nil, err
	}
	bom.SerialNumber = serialNumber(unnumbered)
	return encodeBOM(bom)
}

func encodeBOM(bom *cdx.BOM) ([]byte, error) {
	var out bytes.Buffer
	err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(bom, cdx.SpecVersion1_6)
	return out.Bytes(), err
}

// serialNumber returns a UUID of version 8 (RFC 9562, section 5.8) that is derived from content.
func serialNumber(content []byte) string {
	id := sha256.Sum256(content)
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

// vendored matches the files of the npm packages in the portal.
var vendored = regexp.MustCompile(`^(htmx|pico)-(\d+\.\d+\.\d+)\.min\.(js|css)$`)

// npmNames maps the name of a file to the package and its license.
var npmNames = map[string]struct{ name, url, license string }{
	"htmx": {"htmx.org", "pkg:npm/htmx.org", "0BSD"},
	"pico": {"@picocss/pico", "pkg:npm/%40picocss/pico", "MIT"},
}

// npmPackages returns the npm packages whose files the portal embeds.
func npmPackages(source string) ([]cdx.Component, error) {
	files, err := os.ReadDir(filepath.Join(source, "internal", "faces", "portal", "assets", "vendor"))
	if err != nil {
		return nil, err
	}
	var packages []cdx.Component
	for _, file := range files {
		if match := vendored.FindStringSubmatch(file.Name()); match != nil {
			known := npmNames[match[1]]
			url := known.url + "@" + match[2]
			packages = append(packages, cdx.Component{
				BOMRef: url, PackageURL: url, Type: cdx.ComponentTypeLibrary, Name: known.name, Version: match[2],
				Licenses: licenseChoice(known.license),
			})
		}
	}
	return packages, nil
}
