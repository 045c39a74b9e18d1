package main_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	release "github.com/realmkeeper/realmkeeper/hack/release"
)

func TestCheckVersion(t *testing.T) {
	tests := map[string]error{
		"v0.1.0":        nil,
		"v1.2.3-rc.1":   nil,
		"0.1.0":         release.ErrVersion,
		"v1.2":          release.ErrVersion,
		"v01.2.3":       release.ErrVersion,
		"v1.2.3+build":  release.ErrVersion,
		"v1.2.3-dirty_": release.ErrVersion,
	}
	for version, want := range tests {
		if err := release.CheckVersion(version); !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", version, err, want)
		}
	}
}

func TestCheckTree(t *testing.T) {
	source := t.TempDir()
	// The configuration of the user must not change the result.
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-C", source, "-c", "user.name=Test", "-c", "user.email=test@example.com"}, args...)
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	check := func(version string, want error) {
		t.Helper()
		if err := release.CheckTree(t.Context(), source, version); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "--message=First")
	check("v0.1.0", nil) // without the tag
	git("tag", "--annotate", "--message=First", "v0.1.0")
	check("v0.1.0", nil)
	if err := os.WriteFile(filepath.Join(source, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check("v0.1.0", release.ErrDirty)
	git("add", "file")
	check("v0.1.0", release.ErrDirty)
	git("commit", "--quiet", "--message=Second")
	check("v0.1.0", release.ErrNotTag)
	check("v0.2.0", nil)
}

const changelog = `# Changelog

## [Unreleased]

### Added

- A new feature.

## [0.1.0] - 2026-12-01

The first release,
for everyone.

### Added

- One feature, described in
  [a page](docs/page.md#part) and [elsewhere](https://example.com/page).
  - A detail.
- Another.

## [0.0.1] - 2026-11-01

### Added
`

func TestReleaseNotes(t *testing.T) {
	tests := map[string]struct {
		version string
		want    string
		wantErr error
	}{
		"section of the version": {
			version: "v0.1.0",
			want: `The first release, for everyone.

### Added

- One feature, described in [a page](https://github.com/realmkeeper/realmkeeper/blob/v0.1.0/docs/page.md#part) and [elsewhere](https://example.com/page).
  - A detail.
- Another.
`,
		},
		"without a section of the version": {version: "v0.2.0", want: "### Added\n\n- A new feature.\n"},
		"section without changes":          {version: "v0.0.1", wantErr: release.ErrNotes},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := release.ReleaseNotes(changelog, test.version)
			if !errors.Is(err, test.wantErr) {
				t.Fatalf("got %v, want %v", err, test.wantErr)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := release.ReleaseNotes("# Changelog\n", "v0.1.0"); !errors.Is(err, release.ErrNotes) {
		t.Errorf("without sections: %v", err)
	}
}
