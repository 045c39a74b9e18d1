package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// platform is an operating system and an architecture, named as in GOOS and GOARCH.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

var errPlatform = errors.New("--only must be a platform of the commands")

// selectPlatforms returns the platforms of the commands, or only one of them.
func selectPlatforms(only string) ([]platform, error) {
	if only == "" {
		return platforms, nil
	}
	for _, p := range platforms {
		if p.String() == only {
			return []platform{p}, nil
		}
	}
	return nil, fmt.Errorf("%w, one of %v; it is %q", errPlatform, platforms, only)
}

const kubectlPlugin = "kubectl-realmkeeper"

// commands are those that run on a user's machine. Each has an archive for each platform.
var commands = []string{kubectlPlugin, "realmkeeper-import", "realmkeeper-local"}

// builtCommand is a command for one platform.
type builtCommand struct {
	download download
	program  program
}

// buildCommand compiles a command and writes an archive with the command and the license.
func buildCommand(ctx context.Context, o options, name string, p platform, staging, dir string) (builtCommand, error) {
	bin, archive, pack := name, name+"-"+p.os+"-"+p.arch+".tar.gz", packTar
	if p.os == "windows" {
		// Windows has no built-in way to open other archives in its Explorer.
		bin, archive, pack = bin+".exe", name+"-"+p.os+"-"+p.arch+".zip", packZip
	}
	path := filepath.Join(staging, p.os+"-"+p.arch, bin)
	// As in the Makefile.
	build := command(ctx, o, "go", "build", "-trimpath", "-buildvcs=false", "-tags=grpcnotrace", "-ldflags", o.ldflags, "-o", path, "./cmd/"+name)
	build.Env = goEnvironment(p)
	if err := build.Run(); err != nil {
		return builtCommand{}, fmt.Errorf("go build: %w", err)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return builtCommand{}, err
	}
	license, err := os.ReadFile(filepath.Join(o.source, "LICENSE"))
	if err != nil {
		return builtCommand{}, err
	}
	content, err := pack(o.created, []file{{bin, 0o755, binary}, {"LICENSE", 0o644, license}})
	if err != nil {
		return builtCommand{}, err
	}
	if err := writeFile(dir, archive, content); err != nil {
		return builtCommand{}, err
	}
	sum, err := checksum(filepath.Join(dir, archive))
	if err != nil {
		return builtCommand{}, err
	}
	return builtCommand{
		download: download{
			Selector: selector{map[string]string{"os": p.os, "arch": p.arch}},
			URI:      homepage + "/releases/download/" + o.version + "/" + archive,
			SHA256:   sum,
			Bin:      bin,
		},
		program: program{artifact: archive, name: bin, platform: p, content: binary},
	}, nil
}

// file is a file in an archive.
type file struct {
	name    string
	mode    os.FileMode
	content []byte
}

// packTar returns a compressed tar archive.
func packTar(at time.Time, files []file) ([]byte, error) {
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: int64(f.mode), Size: int64(len(f.content)), ModTime: at}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func packZip(at time.Time, files []file) ([]byte, error) {
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		header.SetMode(f.mode)
		w, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
