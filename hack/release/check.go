package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"golang.org/x/mod/semver"
)

var (
	errVersion = errors.New("VERSION must be a semantic version that starts with v, such as v1.2.3 or v1.2.3-rc.1")
	errDirty   = errors.New("the working tree has uncommitted changes")
	errNotTag  = errors.New("the tag of the version points to another commit")
)

// checkVersion rejects versions that Helm, krew, or a registry would reject or change. A tag of an
// image can't contain build metadata.
func checkVersion(version string) error {
	if semver.Canonical(version) != version || version == "" {
		return fmt.Errorf("%w, without build metadata; it is %q", errVersion, version)
	}
	return nil
}

// checkTree requires that the working tree is the same as the tag of the version. You can build a
// version before you create its tag.
func checkTree(ctx context.Context, source, version string) error {
	changes, err := git(ctx, source, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("%w; commit or remove them, or set SNAPSHOT=1 for a build that you do not publish:\n%s", errDirty, changes)
	}
	tags, err := git(ctx, source, "tag", "--list", version)
	if err != nil || tags == "" {
		return err
	}
	tagged, err := git(ctx, source, "rev-parse", "refs/tags/"+version+"^{commit}")
	if err != nil {
		return err
	}
	head, err := git(ctx, source, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	if head != tagged {
		return fmt.Errorf("%w: %s is %s, and HEAD is %s; check out the tag, or set SNAPSHOT=1 for a build that you do not publish",
			errNotTag, version, tagged, head)
	}
	return nil
}

func git(ctx context.Context, source string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", source}, args...)...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("git %s: %w\n%s", args[0], err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
