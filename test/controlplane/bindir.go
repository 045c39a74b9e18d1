package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// BinDir returns the directory of the control plane's binaries, and of others that
// build.sh knows by name, after building what is missing, which takes some minutes once
// per machine; progress goes to the writer. KUBEBUILDER_ASSETS comes first where it is
// set. It must be called from within the repository.
func BinDir(ctx context.Context, progress io.Writer, others ...string) (string, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return "", fmt.Errorf("find the control plane's sources: %w", err)
	}
	build := exec.CommandContext(ctx, filepath.Join(root, "test", "controlplane", "build.sh"), others...)
	build.Stderr = progress
	out, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("build the control plane: %w", err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// RepositoryRoot is the nearest directory at or above the working directory that holds
// the product's go.mod, told by the file that builds the control plane beside it.
func RepositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "test", "controlplane", "build.sh"))
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working directory is not in the Realmkeeper repository")
		}
		dir = parent
	}
}
