package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const checksums = "SHA256SUMS"

// writeChecksums writes the checksums of all files in dir in the format of sha256sum, sorted by
// name.
func writeChecksums(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, file := range files {
		sum, err := checksum(filepath.Join(dir, file.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%s  %s\n", sum, file.Name())
	}
	return writeFile(dir, checksums, []byte(list.String()))
}

func checksum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), nil
}

// sign signs the checksums, which cover all other files.
func sign(ctx context.Context, o options, dir string) error {
	path := filepath.Join(dir, checksums)
	return cosign(ctx, o, "sign-blob", "--bundle", path+".sigstore.json", path)
}

// cosign signs with the key. The signature isn't recorded in a public transparency log, so signing and
// verification need no network.
func cosign(ctx context.Context, o options, verb string, args ...string) error {
	args = append([]string{
		"tool", "-modfile=hack/tools/cosign/go.mod", "cosign", verb, "--yes", "--key", o.key, "--use-signing-config=false", "--tlog-upload=false",
	}, args...)
	cosign := command(ctx, o, "go", args...)
	cosign.Stdin, cosign.SysProcAttr = os.Stdin, nil // In its own process group, cosign can't ask for the password.
	cosign.Cancel = nil
	if err := cosign.Run(); err != nil {
		return fmt.Errorf("cosign %s: %w; check the key and COSIGN_PASSWORD", verb, err)
	}
	return nil
}
