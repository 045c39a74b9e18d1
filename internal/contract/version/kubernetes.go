package version

import (
	"errors"
	"fmt"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// Oldest and Newest are the oldest and the newest supported minor versions of Kubernetes. All versions
// between them are supported. They are the four newest for which the tests can run a control plane.
const (
	Oldest = "1.34"
	Newest = "1.37"
)

// Supported describes the supported versions.
const Supported = Oldest + " to " + Newest

var (
	// ErrTooOld is returned for versions before Oldest.
	ErrTooOld = errors.New("unsupported version of Kubernetes")
	// ErrUntested is returned for versions after Newest, and for values that are not versions. Both
	// are expected to work, because Kubernetes keeps its stable APIs, and some distributions have a
	// version scheme of their own.
	ErrUntested = errors.New("untested version of Kubernetes")
)

// Check checks the gitVersion of an API server, such as "v1.34.5-gke.100". It ignores everything
// after the minor version. It returns nil if the version is supported, and otherwise an error that
// wraps ErrTooOld or ErrUntested.
func Check(gitVersion string) error {
	parsed, err := utilversion.ParseGeneric(gitVersion)
	if err != nil || parsed.Major() == 0 { // 0 is the version of builds that don't set one
		return fmt.Errorf("%w: %q is not a version", ErrUntested, gitVersion)
	}
	minor := utilversion.MajorMinor(parsed.Major(), parsed.Minor())
	if minor.LessThan(utilversion.MustParseGeneric(Oldest)) {
		return fmt.Errorf("%w: %s is older than %s; upgrade the cluster to a version from %s", ErrTooOld, gitVersion, Oldest, Supported)
	}
	if minor.GreaterThan(utilversion.MustParseGeneric(Newest)) {
		return fmt.Errorf("%w: %s is newer than %s; check whether a newer version of Realmkeeper is available", ErrUntested, gitVersion, Newest)
	}
	return nil
}
