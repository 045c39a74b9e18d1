package main

import (
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

// repository is the part of the OCI distribution specification's grammar that needs no
// registry.
var repository = regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*$`)

var (
	errImage    = errors.New("--image must be NAME:TAG")
	errBinaries = errors.New("no binaries are named")
)

// archive makes an image of static binaries that are there already, for the processors of
// this machine. The image runs the first one.
func archive(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("image archive", flag.ContinueOnError)
	image := flags.String("image", "", "the `name:tag` of the image (required)")
	output := flags.String("output", "", "the `file` to write (required)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var d description
	d.repository, d.tag, _ = strings.Cut(*image, ":")
	if !repository.MatchString(d.repository) || !tag.MatchString(d.tag) {
		return fmt.Errorf("%w, not %q", errImage, *image)
	}
	if *output == "" || flags.NArg() == 0 {
		return fmt.Errorf("%w, or no --output", errBinaries)
	}
	d.entrypoint = "/" + filepath.Base(flags.Arg(0))
	d.createdBy = "hack/image archive"
	d.created = time.Unix(0, 0).UTC()
	if err := writeBinaries(*output, d, flags.Args()); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s in %s\n", d.reference(), *output)
	return err
}

func writeBinaries(output string, d description, binaries []string) error {
	i := slices.IndexFunc(platforms, func(p platform) bool { return p.arch == runtime.GOARCH })
	if i < 0 {
		return fmt.Errorf("%w: there are no images for %s", errNotStatic, runtime.GOARCH)
	}
	// Made beside its place and renamed into it: what lies there is always whole.
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
		if err := requireStatic(binary, platforms[i].machine); err != nil {
			return fmt.Errorf("checking %s: %w", binary, err)
		}
		if err := copyFile(binary, filepath.Join(content, filepath.Base(binary))); err != nil {
			return err
		}
	}
	image, err := assemble(d, platforms[i], content)
	if err != nil {
		return fmt.Errorf("assembling the image: %w", err)
	}
	staged := filepath.Join(staging, "archive")
	if err := writeArchive(staged, d, platforms[i], image); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
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
