package main

import (
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// repository matches names without a registry as defined in the OCI distribution specification.
var repository = regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*$`)

var (
	errImage    = errors.New("--image must be NAME:TAG")
	errBinaries = errors.New("no binaries specified")
)

// archive builds an image from existing binaries, for the architecture of this machine. The first
// binary is the entrypoint. Binaries must be static, unless there is a library.
func archive(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("image archive", flag.ContinueOnError)
	image := flags.String("image", "", "`Name:tag` of the image (required)")
	output := flags.String("output", "", "Output `file` (required)")
	library := flags.String("library", "", "`Path` of a library that the binaries load; it and all dependencies are added")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var d description
	d.repository, d.tag, _ = strings.Cut(*image, ":")
	if !repository.MatchString(d.repository) || !tag.MatchString(d.tag) {
		return fmt.Errorf("%w, not %q", errImage, *image)
	}
	if *output == "" || flags.NArg() == 0 {
		return fmt.Errorf("%w or --output is missing", errBinaries)
	}
	d.entrypoint = "/" + filepath.Base(flags.Arg(0))
	d.createdBy = "hack/image archive"
	d.created = time.Unix(0, 0).UTC()
	if err := writeBinaries(ctx, *output, d, *library, flags.Args()); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s in %s\n", d.reference(), *output)
	return err
}

func writeBinaries(ctx context.Context, output string, d description, library string, binaries []string) error {
	i := slices.IndexFunc(platforms, func(p platform) bool { return p.arch == runtime.GOARCH })
	if i < 0 {
		return fmt.Errorf("%w: unsupported architecture %s", errNotStatic, runtime.GOARCH)
	}
	// Build in a temporary directory and rename, so that the output is always complete.
	staging, err := os.MkdirTemp(filepath.Dir(output), ".image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	content := filepath.Join(staging, "content")
	if err := os.Mkdir(content, 0o750); err != nil {
		return err
	}
	for _, binary := range binaries {
		if err := requireStatic(binary, platforms[i].machine); err != nil && library == "" {
			return fmt.Errorf("check %s: %w", binary, err)
		}
		if err := copyFile(binary, filepath.Join(content, filepath.Base(binary))); err != nil {
			return err
		}
	}
	if library != "" {
		if err := copyLibraries(ctx, content, library, binaries); err != nil {
			return err
		}
	}
	image, err := assemble(d, platforms[i], content, gzip.BestSpeed)
	if err != nil {
		return fmt.Errorf("assemble the image: %w", err)
	}
	staged := filepath.Join(staging, "archive")
	if err := writeArchive(staged, d, platforms[i], image); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return os.Rename(staged, output)
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}
