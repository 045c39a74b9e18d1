package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

const provenance = "provenance.sigstore.json"

// cleanCommit returns the commit of the source; empty if the source has uncommitted changes.
func cleanCommit(ctx context.Context, source string) (string, error) {
	changes, err := git(ctx, source, "status", "--porcelain")
	if err != nil || changes != "" {
		return "", err
	}
	return git(ctx, source, "rev-parse", "HEAD")
}

var errChanged = errors.New("the source has changed since the build began")

// attest signs a statement about the commit from which the files and the images of the release were built. It signs
// none if the source had uncommitted changes, because no commit has that source.
func attest(ctx context.Context, o options, commit, dir string) error {
	if commit == "" {
		return nil
	}
	if now, err := cleanCommit(ctx, o.source); err != nil || now != commit {
		return cmp.Or(err, errChanged)
	}
	content, err := newStatement(o, commit, dir)
	if err != nil {
		return err
	}
	path := filepath.Join(filepath.Dir(dir), "statement.json")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	return cosign(ctx, o, "attest-blob", "--statement", path, "--bundle", filepath.Join(dir, provenance))
}

// resource is a ResourceDescriptor of in-toto.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// newStatement returns a statement of in-toto 1 with a provenance of SLSA 1. Its subjects are the files in
// SHA256SUMS, and the images in images.txt.
func newStatement(o options, commit, dir string) ([]byte, error) {
	sums, err := os.ReadFile(filepath.Join(dir, checksums))
	if err != nil {
		return nil, err
	}
	images, err := os.ReadFile(filepath.Join(dir, "images.txt"))
	if err != nil {
		return nil, err
	}
	var subjects []resource
	for line := range strings.Lines(string(sums)) {
		sum, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		subjects = append(subjects, resource{Name: file, Digest: map[string]string{"sha256": sum}})
	}
	for line := range strings.Lines(string(images)) {
		image, sum, _ := strings.Cut(strings.TrimSpace(line), "@sha256:")
		subjects = append(subjects, resource{Name: image, Digest: map[string]string{"sha256": sum}})
	}
	procedure := homepage + "/blob/" + o.version + "/docs/release.md#create-a-release"
	return json.Marshal(map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":            procedure,
				"externalParameters":   map[string]string{"VERSION": o.version, "REGISTRY": o.registry, "ONLY": o.only},
				"resolvedDependencies": []resource{{URI: "git+" + homepage, Digest: map[string]string{"gitCommit": commit}}},
			},
			// The holder of the key, who follows the procedure.
			"runDetails": map[string]any{"builder": map[string]string{"id": procedure}},
		},
	})
}
