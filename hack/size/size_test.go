package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// write writes files, by path, and returns their directory.
func write(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for path, content := range files {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// repository returns a repository with one commit of a project with two files, of which one uses the other.
func repository(t *testing.T) string {
	t.Helper()
	dir := write(t, t.TempDir(), map[string]string{
		"go.mod":            "module github.com/realmkeeper/realmkeeper\n\ngo 1.26\n",
		"internal/p/a.go":   "package p\n\nfunc A() { B() }\n",
		"internal/p/b.go":   "package p\n\nfunc B() {}\n\nfunc C() {}\n",
		"internal/p/doc.go": "// Package p is a package.\npackage p\n",
		file: "hard circle of others 1\nhard modules 0\nsoft code p 100\nsoft record kinds 0\nsoft reasons 0\n" +
			"soft metrics 0\nsoft flags 0\n",
	})
	git(t, dir, "init", "--quiet")
	commit(t, dir, "p: add package")
	return dir
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func commit(t *testing.T, dir, message string) {
	t.Helper()
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "--message", message)
}

func TestSize(t *testing.T) {
	const higher = "hard circle of others 2\nhard modules 0\nsoft code p 100\nsoft record kinds 0\nsoft reasons 0\nsoft metrics 0\nsoft flags 0\n"
	closed := map[string]string{"internal/p/b.go": "package p\n\nfunc B() {}\n\nfunc C() { A() }\n"}
	tests := map[string]struct {
		change  map[string]string
		message string // of a commit, if the change is committed
		want    string // in the error; empty if there is none
	}{
		"no change": {},
		"a circle of files is closed": {
			change:  closed,
			message: "p: close a circle",
			want:    `circle internal/p has grown by 1, from 1 to 2: make it smaller, or raise the ceiling in hack/size/ceilings.txt in a commit whose message says why in a line that starts with "Ceiling:"`,
		},
		"a module is added": {
			change: map[string]string{"go.mod": "module github.com/realmkeeper/realmkeeper\n\ngo 1.26\n\nrequire golang.org/x/tools v0.40.0\n"},
			want:   "modules has grown by 1, from 0 to 1",
		},
		"a raised ceiling": {
			change: map[string]string{file: higher},
			want:   `the ceiling of circle of others was raised by 1, from 1 to 2` + "\n" + `make it smaller instead, or say why it must grow in a line of the commit message that starts with "Ceiling:"`,
		},
		"a raised ceiling in a commit without a reason": {
			change: map[string]string{file: higher}, message: "p: raise the ceiling", want: "the ceiling of circle of others was raised by 1, from 1 to 2",
		},
		"a raised ceiling in a commit with a reason": {
			change: map[string]string{file: higher}, message: "p: raise the ceiling\n\nCeiling: p needs a second file for the Windows version.",
		},
		"a ceiling above that of others": {
			change: map[string]string{file: "hard circle internal/p 2\n" + strings.Replace(higher, "others 2", "others 1", 1)},
			want:   "the ceiling of circle internal/p was raised by 1, from 1 to 2",
		},
		"a ceiling without a line": {
			change: map[string]string{file: strings.Replace(higher, "hard modules 0\n", "", 1)}, want: "the ceiling of modules, which was 0, was removed",
		},
		"a value without a line": {
			change: map[string]string{file: strings.Replace(higher, "soft flags 0\n", "", 1)}, want: "flags is 0 and has no line in hack/size/ceilings.txt: add one with this number",
		},
		"a malformed line": {
			change: map[string]string{file: "hard modules\n"}, want: `hack/size/ceilings.txt, line 1: "hard modules" must be hard or soft, a name, and a number`,
		},
		"a malformed number": {
			change: map[string]string{file: "# Modules\nhard modules some\n"}, want: `hack/size/ceilings.txt, line 2: "hard modules some" must end with a number`,
		},
		"two lines": {
			change: map[string]string{file: "hard modules 1\nhard modules 2\n"}, want: `hack/size/ceilings.txt, line 2: there are two lines for "modules"; keep the lower one`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := write(t, repository(t), test.change)
			if test.message != "" {
				commit(t, dir, test.message)
			}
			err := run(&bytes.Buffer{}, dir, "", -1)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got error:\n%v\nwant:\n%s", err, test.want)
			}
		})
	}
}

func lines(t *testing.T, content string) []value {
	t.Helper()
	all, err := parse([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestMovedPackage moves a package, or splits it.
func TestMovedPackage(t *testing.T) {
	const rest = "hard circle of others 2\nhard modules 0\n"
	tests := map[string]struct{ now, want string }{
		"moved":                  {now: rest + "hard circle internal/serve/p 7\n"},
		"moved and smaller":      {now: rest + "hard circle internal/serve/p 6\n"},
		"without a line":         {now: rest},
		"moved and larger":       {now: rest + "hard circle internal/serve/p 8\n", want: "the ceiling of circle internal/serve/p was raised by 6, from 2 to 8"},
		"split":                  {now: rest + "hard circle internal/p/a 7\nhard circle internal/p/b 2\n"},
		"split into two circles": {now: rest + "hard circle internal/p/a 7\nhard circle internal/p/b 3\n", want: "the ceiling of circle internal/p/b was raised by 1, from 2 to 3"},
		"others have no ceiling": {now: "hard modules 0\n", want: "the ceiling of circle internal/p, which was 7, was removed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			old, now := lines(t, rest+"hard circle internal/p 7\n"), lines(t, test.now)
			err := errors.Join(raised(old, now)...)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got error:\n%v\nwant:\n%s", err, test.want)
			}
		})
	}
}

func TestAreas(t *testing.T) {
	for path, want := range map[string]string{
		"internal/contract/record/record.go": "code contract",
		"internal/operator/operator.go":      "code operator",
		"internal/operator/operator_test.go": "code tests",
		"api/v1beta1/realm_types.go":         "code api",
		"api/verify/verifier.go":             "code api/verify",
		"cmd/operator/main.go":               "code cmd",
		"hack/testkit/hostile/hostile.go":    "code tests",
		"test/framework/env/env.go":          "code tests",
		"hack/size/code.go":                  "code hack",
		"docs/examples/orders-api/main.go":   "code hack",
	} {
		if got := areaOf(path); got != want {
			t.Errorf("%s belongs to %q, want %q", path, got, want)
		}
	}
}

func TestMissingCeilings(t *testing.T) {
	dir := repository(t)
	if err := os.Remove(filepath.Join(dir, file)); err != nil {
		t.Fatal(err)
	}
	const want = "hack/size/ceilings.txt is missing: restore it with git checkout HEAD -- hack/size/ceilings.txt"
	if err := run(&bytes.Buffer{}, dir, "", -1); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %s", err, want)
	}
}

func TestTable(t *testing.T) {
	dir := repository(t)
	bin := t.TempDir()
	write(t, bin, map[string]string{"operator": strings.Repeat("x", 2_000_001), "portal": "x"})
	write(t, dir, map[string]string{
		"hack/a.go": "package hack\n\n// A is a comment.\nvar A = `\n\n`\n" + strings.Repeat("\nvar _ = 1\n", 100),
		file: "hard circle of others 1\nhard modules 0\nhard MB operator 4\nhard MB portal 2\nhard MB image 4\nhard control planes 8\n" +
			"soft code hack 100\nsoft code p 100\nsoft record kinds 0\nsoft reasons 0\nsoft metrics 0\nsoft flags 0\n",
	})
	var out bytes.Buffer
	if err := run(&out, dir, bin, 9); err == nil || !strings.Contains(err.Error(), "control planes has grown by 1, from 8 to 9") {
		t.Errorf("got error %v", err)
	}
	for _, want := range []string{"MB operator 4 ceiling 4", "MB image 4 ceiling 4", "CONTROL PLANES 9 CEILING 8", "CODE HACK 104 baseline 100", "reasons 0 baseline 0"} {
		if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got, want) {
			t.Errorf("the table doesn't contain %q:\n%s", want, out.String())
		}
	}
}
