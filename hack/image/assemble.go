package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
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

// user is the number that config/manager runs as; the image has no user database.
const user = "65532:65532"

// description is what an image says of itself.
type description struct {
	repository string // such as realmkeeper; see reference
	tag        string
	entrypoint string
	labels     map[string]string
	created    time.Time // of everything in it
	createdBy  string
}

// reference is the image's name in full: without a registry it stands for one of Docker
// Hub's library, which is what container runtimes make of it.
func (d description) reference() string { return "docker.io/library/" + d.repository + ":" + d.tag }

// assemble makes the image of one platform: one layer with what lies in binaries, at its
// root.
func assemble(d description, p platform, binaries string) (v1.Image, error) {
	var content bytes.Buffer
	if err := writeTar(&content, os.DirFS(binaries), 0o755, d.created); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.DefaultCompression),
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

// runnable is an image to run, and no artifact. go-containerregistry would describe it as
// one of the type of its configuration.
type runnable struct{ v1.Image }

// ArtifactType is what go-containerregistry asks for.
func (runnable) ArtifactType() (string, error) { return "", nil }

// writeTar writes the files of a tree in lexical order, without directories, all owned by
// root and with the same mode and time.
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
