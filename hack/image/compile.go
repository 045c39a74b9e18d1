package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// platform is a Linux platform.
type platform struct {
	arch    string // as in GOARCH and in OCI
	machine elf.Machine
	level   string // the lowest processor level, so that the binaries run on all processors
}

var platforms = []platform{
	{arch: "amd64", machine: elf.EM_X86_64, level: "GOAMD64=v1"},
	{arch: "arm64", machine: elf.EM_AARCH64, level: "GOARM64=v8.0"},
}

func (p platform) String() string               { return "linux/" + p.arch }
func (p platform) archive(image product) string { return image.name + "-linux-" + p.arch + ".tar" }
func (p platform) oci() *v1.Platform            { return &v1.Platform{OS: "linux", Architecture: p.arch} }

var errNotStatic = errors.New("not a static binary of its platform")

// compile builds the commands in cmd/ that the image contains into dir. It returns an error if a binary isn't static,
// because the image contains no loader and no libraries.
func compile(ctx context.Context, o options, image product, p platform, dir string) error {
	commands, err := filepath.Glob(filepath.Join(o.source, "cmd", "*", "main.go"))
	if err != nil {
		return err
	}
	// As in the Makefile.
	arguments := []string{"build", "-trimpath", "-buildvcs=false", "-tags=grpcnotrace", "-ldflags", o.ldflags, "-o", dir + string(filepath.Separator)}
	for _, main := range commands {
		if command := filepath.Base(filepath.Dir(main)); image.contains(command) {
			arguments = append(arguments, "./cmd/"+command)
		}
	}
	build := exec.CommandContext(ctx, "go", arguments...)
	build.Dir = o.source
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	// Override all environment variables that would change the output.
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+p.arch, p.level, "CGO_ENABLED=0",
		"GOFLAGS=-mod=readonly", "GOWORK=off", "GOEXPERIMENT=", "GOFIPS140=off")
	if err := build.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	binaries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, binary := range binaries {
		if err := requireStatic(filepath.Join(dir, binary.Name()), p.machine); err != nil {
			return fmt.Errorf("check %s: %w", binary.Name(), err)
		}
	}
	return nil
}

func requireStatic(path string, machine elf.Machine) error {
	file, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if file.Machine != machine {
		return fmt.Errorf("%w: built for %s", errNotStatic, file.Machine)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP || segment.Type == elf.PT_DYNAMIC {
			return fmt.Errorf("%w: contains %s", errNotStatic, segment.Type)
		}
	}
	return nil
}
