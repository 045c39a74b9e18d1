// Command image builds the container images for linux/amd64 and linux/arm64 without Docker, a
// daemon or network access. An image contains only static binaries from cmd/. There is one of the
// product, and one of the token agent, which runs in the Pods of users.
//
//	make image
//
// The build is reproducible: the same source, flags and Go release produce the same bytes in
// any directory. The output in dist/ of the source directory, or in --output:
//
//	image/                                  an OCI layout with one entry, the index of both platforms
//	realmkeeper-linux-ARCH.tar              an archive for container runtimes with the image of a platform
//	token-agent-image/                      the same for the token agent
//	realmkeeper-token-agent-linux-ARCH.tar
//
// The archive command builds a small image from other static binaries, such as test programs. With
// a library, binaries can be dynamic:
//
//	go run -C hack/image . archive --image NAME:TAG --output FILE [--library FILE] BINARY...
package main

import (
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// product is an image.
type product struct {
	name        string // of the repository
	title       string
	description string
	layout      string // the name of the OCI layout
	entrypoint  string // the name of a command
	contains    func(command string) bool
}

const tokenAgent = "token-agent"

var products = []product{
	{
		name: "realmkeeper", title: "Realmkeeper", layout: "image", entrypoint: "operator",
		description: "OAuth 2.0 realms and API credentials as Kubernetes resources",
		// What begins with realmkeeper- needs no cluster.
		contains: func(command string) bool { return command != tokenAgent && !strings.HasPrefix(command, "realmkeeper-") },
	},
	{
		name: "realmkeeper-token-agent", title: "Realmkeeper token agent", layout: "token-agent-image", entrypoint: tokenAgent,
		description: "Keeps a file with an OAuth 2.0 access token fresh",
		contains:    func(command string) bool { return command == tokenAgent },
	},
}

// tag matches tags as defined in the OCI distribution specification.
var tag = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)

var (
	errVersion  = errors.New("--version is not a valid tag")
	errPlatform = errors.New("--only must be one of")
)

const next = `
To load the image of one platform into a cluster or Docker without a registry:
  kind load image-archive dist/%[1]s
  ctr --namespace k8s.io images import dist/%[1]s
  go run -C test ./cluster load "$PWD/dist/%[1]s"
  docker load --input dist/%[1]s
To push the image of both platforms to a registry:
  crane push dist/%[2]s REGISTRY/%[3]s
The image of the token agent is in dist/%[4]s and dist/%[5]s.
`

type options struct {
	source   string // the repository
	output   string // the directory for the output; empty for dist/ in source
	only     string // the only platform to build; empty for all
	version  string // the tag of the image
	revision string
	ldflags  string
	created  time.Time // the timestamp of everything in the image
}

// describe returns the metadata for the image configuration and the index annotations.
func (o options) describe(image product) description {
	return description{
		repository: image.name,
		tag:        o.version,
		entrypoint: "/" + image.entrypoint,
		created:    o.created,
		createdBy:  "make image",
		labels: map[string]string{
			"org.opencontainers.image.title":       image.title,
			"org.opencontainers.image.description": image.description,
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     o.version,
			"org.opencontainers.image.revision":    o.revision,
			"org.opencontainers.image.created":     o.created.Format(time.RFC3339),
		},
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "archive" {
		exit(archive(context.Background(), os.Args[2:], os.Stdout))
	}
	var o options
	var epoch int64
	flag.StringVar(&o.source, "source", "../..", "`Directory` of the repository")
	flag.StringVar(&o.output, "output", "", "`Directory` for the output (default dist/ in --source)")
	flag.StringVar(&o.only, "only", "", "Build only this `platform`, such as linux/amd64")
	flag.StringVar(&o.version, "version", "", "`Version` of the product, also used as the tag (required)")
	flag.StringVar(&o.revision, "revision", "unknown", "`Commit` of the source")
	flag.StringVar(&o.ldflags, "ldflags", "", "Linker `flags` for go build")
	flag.Int64Var(&epoch, "source-date-epoch", 0, "Timestamp of everything in the image, in `seconds` since 1970")
	flag.Parse()
	o.created = time.Unix(epoch, 0).UTC()

	exit(run(o, os.Stdout))
}

func exit(err error) {
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(o options, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if !tag.MatchString(o.version) {
		return fmt.Errorf("%w: %q", errVersion, o.version)
	}
	selected := slices.DeleteFunc(slices.Clone(platforms), func(p platform) bool { return o.only != "" && o.only != p.String() })
	if len(selected) == 0 {
		return fmt.Errorf("%w %v: %q", errPlatform, platforms, o.only)
	}
	dist := o.output
	if dist == "" {
		dist = filepath.Join(o.source, "dist")
	}
	dist, err := filepath.Abs(dist)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dist, 0o750); err != nil {
		return err
	}
	// Build in a temporary directory and rename, so that dist/ only contains complete files.
	staging, err := os.MkdirTemp(dist, ".image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)

	var artifacts []string
	for _, image := range products {
		built, err := buildProduct(ctx, o, image, selected, staging, out)
		if err != nil {
			return err
		}
		artifacts = append(artifacts, built...)
	}
	for _, artifact := range artifacts {
		if err := replace(filepath.Join(staging, artifact), filepath.Join(dist, artifact)); err != nil {
			return err
		}
	}
	if o.output == "" {
		main, agent := products[0], products[1]
		fmt.Fprintf(out, next, selected[0].archive(main), main.layout, main.name+":"+o.version, selected[0].archive(agent), agent.layout)
	}
	return nil
}

// buildProduct builds an image for platforms, and returns the names of what it wrote to staging.
func buildProduct(ctx context.Context, o options, image product, selected []platform, staging string, out io.Writer) (artifacts []string, err error) {
	fmt.Fprintf(out, "%s:%s, revision %s, built with %s\n", image.name, o.version, o.revision, runtime.Version())
	artifacts = append(artifacts, image.layout)
	index := v1.ImageIndex(empty.Index)
	for _, p := range selected {
		built, err := buildPlatform(ctx, o, image, p, staging)
		if err != nil {
			return nil, fmt.Errorf("build for %s: %w", p, err)
		}
		if err := report(out, p, built); err != nil {
			return nil, err
		}
		artifacts = append(artifacts, p.archive(image))
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: built, Descriptor: v1.Descriptor{Platform: p.oci()}})
	}
	index = mutate.Annotations(index, o.describe(image).labels).(v1.ImageIndex)
	if err := writeLayout(filepath.Join(staging, image.layout), o.version, index); err != nil {
		return nil, fmt.Errorf("write the layout: %w", err)
	}
	digest, err := index.Digest()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "  index        %s\n", digest)
	return artifacts, nil
}

// buildPlatform builds the image of one platform and writes its archive to staging.
func buildPlatform(ctx context.Context, o options, image product, p platform, staging string) (v1.Image, error) {
	binaries := filepath.Join(staging, image.name+"-"+p.arch)
	if err := compile(ctx, o, image, p, binaries); err != nil {
		return nil, err
	}
	built, err := assemble(o.describe(image), p, binaries, gzip.DefaultCompression)
	if err != nil {
		return nil, fmt.Errorf("assemble the image: %w", err)
	}
	if err := writeArchive(filepath.Join(staging, p.archive(image)), o.describe(image), p, built); err != nil {
		return nil, fmt.Errorf("write the archive: %w", err)
	}
	return built, ctx.Err()
}

func report(out io.Writer, p platform, image v1.Image) error {
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "  %s  %s  %.1f MB\n", p, digest, float64(manifest.Layers[0].Size)/1e6)
	return err
}

func replace(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.Rename(from, to)
}
