package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// dependency matches the absolute path of a library in the output of ldd.
var dependency = regexp.MustCompile(`(?m)^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$`)

// copyLibraries copies a library and everything that it and the binaries load to content, under the
// same paths. The dynamic linker is among them.
func copyLibraries(ctx context.Context, content, library string, binaries []string) error {
	paths := map[string]bool{library: true}
	for _, program := range append([]string{library}, binaries...) {
		out, err := exec.CommandContext(ctx, "ldd", program).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ldd %s: %w\n%s", program, err, out)
		}
		for _, match := range dependency.FindAllSubmatch(out, -1) {
			paths[string(match[1])] = true
		}
	}
	for path := range paths {
		to := filepath.Join(content, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
			return err
		}
		if err := copyFile(path, to); err != nil { // follows symbolic links
			return err
		}
	}
	return nil
}
