package main_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A typo must not start or stop a node.
func TestRejectsInvalidCommandLines(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	for name, args := range map[string][]string{
		"no command":                      nil,
		"unknown command":                 {"restart"},
		"unknown flag":                    {"--all", "down"},
		"up with an argument":             {"up", "again"},
		"down with an argument":           {"down", "all"},
		"load without a file":             {"load"},
		"exec without a command":          {"exec"},
		"stop-apiserver with an argument": {"stop-apiserver", "now"},
		"unknown internal command":        {"inside", "restart"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := exec.Command(program, append([]string{"--dir", filepath.Join(dir, "cluster")}, args...)...).CombinedOutput()
			exit, failed := errors.AsType[*exec.ExitError](err)
			if !failed || exit.ExitCode() != 2 || !strings.Contains(string(out), "Usage:") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
