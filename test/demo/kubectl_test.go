package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestCheckKubectlFollowsTheSkewPolicy(t *testing.T) {
	tests := map[string]struct {
		version string
		want    bool
	}{
		"two minor versions older": {"v1.34.9", false},
		"one minor version older":  {"v1.35.0", true},
		"same version":             {"v1.36.3", true},
		"same minor version":       {"v1.36.0-vendor", true},
		"one minor version newer":  {"v1.37.1+build", true},
		"two minor versions newer": {"v1.38.0", false},
		"other major version":      {"v2.36.3", false},
		"no version":               {"unknown", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kubectl")
			kubectl := fmt.Sprintf("#!/bin/sh\necho '{\"clientVersion\":{\"gitVersion\":%q}}'\n", tc.version)
			if err := os.WriteFile(path, []byte(kubectl), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := checkKubectl(t.Context(), path, "v1.36.3"); (err == nil) != tc.want {
				t.Errorf("got error %v, want supported: %t", err, tc.want)
			}
		})
	}
}
