package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

var errLayout = errors.New("unexpected content of the OCI layout")

// tokenAgent is the name of the second image, which runs in the Pods of users.
const tokenAgent = name + "-token-agent"

// layouts are the OCI layouts that hack/image writes, by the name of the image.
var layouts = map[string]string{name: "image", tokenAgent: "token-agent-image"}

// buildImages builds the images with hack/image. It returns the programs in the images of each
// platform, and the digests of the indexes by the name of the image.
func buildImages(ctx context.Context, o options, staging, dir string) (programs []program, digests map[string]string, err error) {
	output := filepath.Join(staging, "image")
	args := []string{
		"run", "-C", "hack/image", ".", "--source", o.source, "--output", output, "--version", o.version, "--revision", o.revision,
		"--source-date-epoch", fmt.Sprint(o.created.Unix()), "--ldflags", o.ldflags,
	}
	if strings.HasPrefix(o.only, "linux/") {
		args = append(args, "--only", o.only)
	}
	if err := command(ctx, o, "go", args...).Run(); err != nil {
		return nil, nil, err
	}
	digests = map[string]string{}
	for _, image := range []string{name, tokenAgent} {
		found, digest, err := moveImage(output, image, dir)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", image, err)
		}
		programs, digests[image] = append(programs, found...), digest
	}
	return programs, digests, nil
}

// moveImage moves an image from the output of hack/image to dir. It returns its programs and the digest of its index.
func moveImage(output, name, dir string) (programs []program, digest string, err error) {
	index, digest, err := readLayout(filepath.Join(output, layouts[name]))
	if err != nil {
		return nil, "", err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, "", err
	}
	for _, entry := range manifest.Manifests {
		image, err := index.Image(entry.Digest)
		if err != nil {
			return nil, "", err
		}
		p := platform{entry.Platform.OS, entry.Platform.Architecture}
		found, err := readPrograms(image, p, entry.Digest)
		if err != nil {
			return nil, "", err
		}
		programs = append(programs, found...)
		archive := name + "-" + p.os + "-" + p.arch + ".tar"
		if err := os.Rename(filepath.Join(output, archive), filepath.Join(dir, archive)); err != nil {
			return nil, "", err
		}
	}
	return programs, digest, packLayout(filepath.Join(output, layouts[name]), filepath.Join(dir, name+"-image.tar"))
}

// readLayout returns the only entry of an OCI layout, which is an index.
func readLayout(dir string) (v1.ImageIndex, string, error) {
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, "", err
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return nil, "", err
	}
	if len(manifest.Manifests) != 1 {
		return nil, "", fmt.Errorf("%w: %d entries, want 1", errLayout, len(manifest.Manifests))
	}
	digest := manifest.Manifests[0].Digest
	index, err := outer.ImageIndex(digest)
	return index, digest.String(), err
}

// readPrograms returns the files in the only layer of the image.
func readPrograms(image v1.Image, p platform, digest v1.Hash) ([]program, error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	if len(layers) != 1 {
		return nil, fmt.Errorf("%w: %d layers, want 1", errLayout, len(layers))
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	var programs []program
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return programs, nil
		}
		if err != nil {
			return nil, err
		}
		binary, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		programs = append(programs, program{artifact: digest.String(), name: header.Name, platform: p, content: binary})
	}
}

// packLayout writes the files of an OCI layout to a tar archive.
func packLayout(from, to string) error {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	archive := tar.NewWriter(out)
	err = filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: relative, Mode: 0o644, Size: int64(len(content))} // without a timestamp, as in hack/image
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	return errors.Join(err, archive.Close(), out.Close())
}
