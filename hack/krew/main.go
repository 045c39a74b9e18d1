// Command krew builds the archives of the kubectl plugin for all platforms, and the manifest with
// which krew installs them.
//
//	make krew
//
// Run it in the root of the repository. It writes reproducible archives and the manifest to
// dist/krew:
//
//	kubectl-realmkeeper-OS-ARCH.tar.gz  the plugin and the license
//	realmkeeper.yaml                    the manifest
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	output   = "dist/krew"
	homepage = "https://github.com/realmkeeper/realmkeeper"
)

var platforms = [][2]string{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"},
}

func main() {
	version := flag.String("version", "", "Version of the plugin")
	ldflags := flag.String("ldflags", "", "Flags for the linker")
	epoch := flag.Int64("source-date-epoch", 0, "Timestamp of the files, in seconds since 1970")
	only := flag.String("only", "", "Build only this platform, such as linux/amd64")
	flag.Parse()
	if err := run(*version, *ldflags, time.Unix(*epoch, 0), *only); err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

func run(version, ldflags string, at time.Time, only string) error {
	// krew requires a "v" before the version.
	version = "v" + strings.TrimPrefix(version, "v")
	if err := os.MkdirAll(output, 0o750); err != nil {
		return err
	}
	var list []platform
	for _, p := range platforms {
		if only != "" && only != p[0]+"/"+p[1] {
			continue
		}
		built, err := build(p[0], p[1], version, ldflags, at)
		if err != nil {
			return fmt.Errorf("building for %s/%s: %w", p[0], p[1], err)
		}
		list = append(list, built)
	}
	manifest, err := yaml.Marshal(newPlugin(version, list))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(output, "realmkeeper.yaml"), manifest, 0o600)
}

// build compiles the plugin for a platform and packs it.
func build(goos, goarch, version, ldflags string, at time.Time) (platform, error) {
	bin := "kubectl-realmkeeper"
	if goos == "windows" {
		bin += ".exe"
	}
	dir, err := os.MkdirTemp("", "krew-")
	if err != nil {
		return platform{}, err
	}
	defer os.RemoveAll(dir)
	compiled := filepath.Join(dir, bin)
	command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", compiled, "./cmd/kubectl-realmkeeper")
	command.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return platform{}, err
	}
	archive, err := pack(at, compiled, "LICENSE")
	if err != nil {
		return platform{}, err
	}
	name := "kubectl-realmkeeper-" + goos + "-" + goarch + ".tar.gz"
	if err := os.WriteFile(filepath.Join(output, name), archive, 0o600); err != nil {
		return platform{}, err
	}
	sum := sha256.Sum256(archive)
	return platform{
		Selector: selector{map[string]string{"os": goos, "arch": goarch}},
		URI:      homepage + "/releases/download/" + version + "/" + name,
		SHA256:   hex.EncodeToString(sum[:]),
		Bin:      bin,
	}, nil
}

// pack returns a compressed archive of files, without their directories.
func pack(at time.Time, files ...string) ([]byte, error) {
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	archive := tar.NewWriter(compressed)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		header := &tar.Header{Name: filepath.Base(file), Mode: 0o755, Size: int64(len(content)), ModTime: at, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
