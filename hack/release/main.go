// Command release builds all files of a release into dist/release. It needs no network access if the
// modules are cached.
//
//	make release VERSION=v1.2.3
//
// The output is reproducible: the same commit and Go release produce the same bytes in any
// directory. Only the signatures differ from run to run.
//
//	realmkeeper-image.tar                the image of both platforms, an OCI layout
//	realmkeeper-linux-ARCH.tar           the image of one platform, for docker load
//	realmkeeper-token-agent-*.tar        the same two files for the token agent
//	realmkeeper-VERSION.tgz              the Helm chart
//	install.yaml, crds.yaml              manifests for kubectl
//	images.txt                           the images with their digests, one a line
//	kubectl-realmkeeper-OS-ARCH.tar.gz   the kubectl plugin (.zip for Windows)
//	realmkeeper-import-OS-ARCH.tar.gz    the import from Hydra and Keycloak (.zip for Windows)
//	realmkeeper-local-OS-ARCH.tar.gz     the local issuer (.zip for Windows)
//	krew.yaml                            the krew manifest of the plugin
//	sbom.cdx.json                        the software bill of materials, in CycloneDX format
//	release-notes.md                     the section of CHANGELOG.md
//	SHA256SUMS                           the checksums of all files above
//	SHA256SUMS.sigstore.json             the signature of SHA256SUMS, if there is a key
//	provenance.sigstore.json             the signed provenance of the files in SHA256SUMS and of the images, if there is a key
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// name is the name of the project, the image, and the chart.
const name = "realmkeeper"

type options struct {
	source   string // the repository
	output   string // the directory of the release; empty for dist/release in source
	version  string // a semantic version that starts with "v"
	revision string
	ldflags  string
	registry string    // where the image and the chart are published, such as ghcr.io/realmkeeper
	only     string    // the only platform to build, such as linux/amd64
	key      string    // a private key for cosign
	snapshot bool      // don't check the working tree
	licenses string    // list the licenses of the programs in this directory, and build nothing
	created  time.Time // the timestamp of everything in the release
}

func (o options) image() string { return o.registry + "/" + name }

func main() {
	var o options
	var epoch int64
	flag.StringVar(&o.source, "source", "../..", "`Directory` of the repository")
	flag.StringVar(&o.output, "output", "", "`Directory` of the release, which is replaced (default dist/release in --source)")
	flag.StringVar(&o.version, "version", "", "`Version` to release, such as v1.2.3 (required)")
	flag.StringVar(&o.revision, "revision", "unknown", "`Commit` of the source")
	flag.StringVar(&o.ldflags, "ldflags", "", "Linker `flags` for go build")
	flag.StringVar(&o.registry, "registry", "ghcr.io/realmkeeper", "`Registry` and path of the published image and chart")
	flag.StringVar(&o.only, "only", "", "Build only this `platform`, such as linux/amd64")
	flag.StringVar(&o.key, "key", "", "Private `key` for cosign, a file or env://VARIABLE; without it, nothing is signed")
	flag.BoolVar(&o.snapshot, "snapshot", false, "Don't require a clean working tree at the tag of the version")
	flag.StringVar(&o.licenses, "licenses", "", "Only list the licenses of what the programs in this `directory` contain, as a table in Markdown")
	flag.Int64Var(&epoch, "source-date-epoch", 0, "Timestamp of everything in the release, in `seconds` since 1970")
	flag.Parse()
	o.created = time.Unix(epoch, 0).UTC()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	build := run
	if o.licenses != "" {
		build = listLicenses
	}
	err := build(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	if o.output == "" {
		o.output = filepath.Join(o.source, "dist", "release")
	}
	var err error
	if o.source, err = filepath.Abs(o.source); err != nil {
		return err
	}
	if o.output, err = filepath.Abs(o.output); err != nil {
		return err
	}
	// Check the input before the build, which takes minutes.
	if err := checkVersion(o.version); err != nil {
		return err
	}
	selected, err := selectPlatforms(o.only)
	if err != nil {
		return err
	}
	if !o.snapshot {
		if err := checkTree(ctx, o.source, o.version); err != nil {
			return err
		}
	}
	changelog, err := os.ReadFile(filepath.Join(o.source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	notes, err := releaseNotes(string(changelog), o.version)
	if err != nil {
		return err
	}

	parent := filepath.Dir(o.output)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	// Build in a temporary directory and rename, so that the output is always complete.
	staging, err := os.MkdirTemp(parent, ".release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	dir := filepath.Join(staging, "release")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	var commit string
	if o.key != "" {
		if commit, err = cleanCommit(ctx, o.source); err != nil {
			return err
		}
	}
	if err := build(ctx, o, selected, staging, dir, out); err != nil {
		return err
	}
	if err := writeFile(dir, "release-notes.md", []byte(notes)); err != nil {
		return err
	}
	if err := writeChecksums(dir); err != nil {
		return err
	}
	if o.key != "" {
		if err := sign(ctx, o, dir); err != nil {
			return err
		}
		if err := attest(ctx, o, commit, dir); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(o.output); err != nil {
		return err
	}
	if err := os.Rename(dir, o.output); err != nil {
		return err
	}
	return report(out, o)
}

// build writes the artifacts to dir.
func build(ctx context.Context, o options, selected []platform, staging, dir string, out io.Writer) error {
	images, digests, err := buildImages(ctx, o, staging, dir)
	if err != nil {
		return fmt.Errorf("build the images: %w", err)
	}
	// The operator, the token servers, the portal, and `helm test` run the first image.
	var references strings.Builder
	for _, image := range []string{name, tokenAgent} {
		step(out, "image", digests[image])
		fmt.Fprintf(&references, "%s/%s:%s@%s\n", o.registry, image, o.version, digests[image])
	}
	if err := writeFile(dir, "images.txt", []byte(references.String())); err != nil {
		return err
	}
	programs := images
	manifest := newPlugin(o.version)
	for _, p := range selected {
		for _, tool := range commands {
			built, err := buildCommand(ctx, o, tool, p, staging, dir)
			if err != nil {
				return fmt.Errorf("build %s for %s: %w", tool, p, err)
			}
			if tool == kubectlPlugin {
				manifest.Spec.Platforms = append(manifest.Spec.Platforms, built.download)
			}
			programs = append(programs, built.program)
		}
		step(out, "commands", p.String())
	}
	if err := writeManifest(dir, manifest); err != nil {
		return err
	}
	if err := packageChart(ctx, o, staging, dir); err != nil {
		return fmt.Errorf("package the chart: %w", err)
	}
	step(out, "chart", "")
	if err := writeManifests(o, digests[name], dir); err != nil {
		return fmt.Errorf("build the manifests: %w", err)
	}
	step(out, "manifests", "")
	if err := writeSBOM(ctx, o, programs, dir); err != nil {
		return fmt.Errorf("write the SBOM: %w", err)
	}
	step(out, "SBOM", "")
	return nil
}

func step(out io.Writer, what, detail string) {
	fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("  %-10s %s", what, detail), " "))
}

func report(out io.Writer, o options) error {
	files, err := os.ReadDir(o.output)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is complete in %s:\n", o.version, o.output)
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %8.1f MB  %s\n", float64(info.Size())/1e6, file.Name())
	}
	if o.key == "" {
		fmt.Fprintln(out, "Nothing is signed because there is no key. docs/release.md explains how to sign.")
	}
	return nil
}

func writeFile(dir, name string, content []byte) error {
	return os.WriteFile(filepath.Join(dir, name), content, 0o644)
}

// command returns a command that runs in the repository. Its output goes to standard error, because
// users need it only if something fails.
func command(ctx context.Context, o options, program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = o.source
	// As in the Makefile, so that Go builds each tool only once.
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	// An interrupt reaches all programs that the command starts. Wait until they have ended, because
	// they write to the temporary directory.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGINT) }
	return c
}

// goEnvironment returns the environment for go build. It overrides all variables that would change
// the output.
func goEnvironment(p platform) []string {
	return append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0",
		"GOFLAGS=-mod=readonly", "GOWORK=off", "GOEXPERIMENT=", "GOFIPS140=off")
}
