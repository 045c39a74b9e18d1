package main

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the numeric user and group of the Deployment in config/manager. The image has no
// user database.
const user = "65532:65532"

// description is the metadata of an image.
type description struct {
	repository string // without a registry, such as realmkeeper
	tag        string
	entrypoint string
	labels     map[string]string
	created    time.Time // the timestamp of everything in the image
	createdBy  string
}

// reference returns the full name of the image. Container runtimes resolve a name without a
// registry to the library repositories of Docker Hub.
func (d description) reference() string { return "docker.io/library/" + d.repository + ":" + d.tag }

// assemble builds the image of one platform. Its only layer contains the files of the directory
// binaries at the root, compressed with the given level of gzip.
func assemble(d description, p platform, binaries string, compression int) (v1.Image, error) {
	var content bytes.Buffer
	if err := writeTar(&content, os.DirFS(binaries), 0o755, d.created); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(compression),
		tarball.WithCompressedCaching,
	)
	if err != nil {
		return nil, err
	}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS:           "linux",
		Architecture: p.arch,
		Created:      v1.Time{Time: d.created},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       user,
			WorkingDir: "/",
			Entrypoint: []string{d.entrypoint},
			Labels:     d.labels,
		},
	})
	if err != nil {
		return nil, err
	}
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: d.created}, CreatedBy: d.createdBy},
	})
	return runnable{image}, err
}

// runnable is an image without an artifact type. By default, go-containerregistry sets the
// artifact type to the media type of the configuration.
type runnable struct{ v1.Image }

// ArtifactType overrides the artifact type that go-containerregistry writes.
func (runnable) ArtifactType() (string, error) { return "", nil }

// writeTar writes the files of a tree in lexical order, without directories. All files are owned
// by root and have the same mode and timestamp.
func writeTar(out io.Writer, tree fs.FS, mode int64, modified time.Time) error {
	w := tar.NewWriter(out)
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: mode, Size: int64(len(content)), ModTime: modified}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
