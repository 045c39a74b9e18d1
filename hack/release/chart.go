package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

var errRepository = errors.New("values.yaml does not set the default image.repository once")

// packageChart packages the chart for the published image. Helm keeps the timestamps of files, so it
// gets a copy whose files have the timestamp of the release.
func packageChart(ctx context.Context, o options, staging, dir string) error {
	chart := filepath.Join(staging, name)
	if err := os.CopyFS(chart, os.DirFS(filepath.Join(o.source, "charts", name))); err != nil {
		return err
	}
	values := filepath.Join(chart, "values.yaml")
	content, err := os.ReadFile(values)
	if err != nil {
		return err
	}
	const repository = "\n  repository: " + name + "\n"
	if bytes.Count(content, []byte(repository)) != 1 {
		return fmt.Errorf("%w: %s", errRepository, strings.TrimSpace(repository))
	}
	content = bytes.Replace(content, []byte(repository), []byte("\n  repository: "+o.image()+"\n"), 1)
	if err := os.WriteFile(values, content, 0o644); err != nil {
		return err
	}
	err = filepath.WalkDir(chart, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, o.created, o.created))
	})
	if err != nil {
		return err
	}
	return command(ctx, o, "go", "tool", "-modfile=hack/tools/helm/go.mod", "helm.sh/helm/v4/cmd/helm", "package", chart,
		"--destination", dir, "--version", strings.TrimPrefix(o.version, "v"), "--app-version", o.version).Run()
}
