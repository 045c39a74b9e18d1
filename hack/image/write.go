package main

import (
	"encoding/json"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// referenceName is the annotation that contains the tag of an entry in an OCI layout.
const referenceName = "org.opencontainers.image.ref.name"

// writeLayout writes an OCI layout whose only entry is the index.
func writeLayout(dir, tag string, index v1.ImageIndex) error {
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return to.AppendIndex(index, layout.WithAnnotations(map[string]string{referenceName: tag}))
}

// writeArchive writes one image in the format of docker save since Docker 25. The archive is an
// OCI layout, which containerd reads and which preserves the digest of the image. Its
// manifest.json also makes it a docker-archive.
func writeArchive(path string, d description, p platform, image v1.Image) error {
	dir := path + ".content"
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = to.AppendImage(image, layout.WithPlatform(*p.oci()), layout.WithAnnotations(map[string]string{
		referenceName:              d.tag,
		"io.containerd.image.name": d.reference(),
	}))
	if err != nil {
		return err
	}
	manifest, err := dockerManifest(d, image)
	if err != nil {
		return err
	}
	if err := to.WriteFile("manifest.json", manifest, 0o644); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	// Use a fixed timestamp, so that the archive is reproducible.
	if err := writeTar(file, os.DirFS(dir), 0o644, time.Unix(0, 0)); err != nil {
		return err
	}
	return file.Close()
}

// dockerManifest returns the manifest.json of a docker-archive.
func dockerManifest(d description, image v1.Image) ([]byte, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	blob := func(b v1.Descriptor) string { return "blobs/" + b.Digest.Algorithm + "/" + b.Digest.Hex }
	var layers []string
	for _, layer := range manifest.Layers {
		layers = append(layers, blob(layer))
	}
	return json.Marshal([]struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{{blob(manifest.Config), []string{d.repository + ":" + d.tag}, layers}})
}
