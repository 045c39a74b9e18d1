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
	"strings"
)

// BinDir returns the directory that contains etcd, kube-apiserver, kube-controller-manager
// and the other named binaries, such as kubectl. It builds missing binaries with build.sh,
// which takes several minutes once per machine and writes its progress to the writer.
// If KUBEBUILDER_ASSETS is set, etcd, kube-apiserver, and kubectl come from that directory.
// The working directory must be in the repository.
func BinDir(ctx context.Context, progress io.Writer, others ...string) (string, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return "", fmt.Errorf("find the sources of the control plane: %w", err)
	}
	build := exec.CommandContext(ctx, filepath.Join(root, "test", "controlplane", "build.sh"), others...)
	build.Stderr = progress
	out, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("build the control plane: %w", err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// ProductFlags are the flags with which the Makefile builds the product, and tests do.
var ProductFlags = []string{"-trimpath", "-buildvcs=false", "-tags=grpcnotrace"}

// productModule is the first line of the go.mod in the root of the repository.
const productModule = "module github.com/realmkeeper/realmkeeper\n"

// RepositoryRoot returns the nearest directory at or above the working directory that holds the
// go.mod of the product.
func RepositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), productModule) {
			return dir, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working directory is not in the Realmkeeper repository")
		}
		dir = parent
	}
}
