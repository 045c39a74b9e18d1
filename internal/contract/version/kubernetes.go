package version

import (
	"errors"
	"fmt"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// OldestKubernetes and NewestKubernetes are the oldest and the newest supported minor versions. All
// versions between them are supported. They are the four newest for which the tests can run a control
// plane.
const (
	OldestKubernetes = "1.34"
	NewestKubernetes = "1.37"
)

// SupportedKubernetes describes the supported versions of Kubernetes.
const SupportedKubernetes = OldestKubernetes + " to " + NewestKubernetes

var (
	// ErrKubernetesTooOld is returned for versions before OldestKubernetes.
	ErrKubernetesTooOld = errors.New("unsupported version of Kubernetes")
	// ErrKubernetesUntested is returned for versions after NewestKubernetes, and for values that are not
	// versions. Both are expected to work, because Kubernetes keeps its stable APIs, and some distributions
	// have a version scheme of their own.
	ErrKubernetesUntested = errors.New("untested version of Kubernetes")
)

// CheckKubernetes checks the gitVersion of an API server, such as "v1.34.5-gke.100". It ignores
// everything after the minor version. It returns nil if the version is supported, and otherwise an error
// that wraps ErrKubernetesTooOld or ErrKubernetesUntested.
func CheckKubernetes(gitVersion string) error {
	parsed, err := utilversion.ParseGeneric(gitVersion)
	if err != nil || parsed.Major() == 0 { // 0 is the version of builds that don't set one
		return fmt.Errorf("%w: %q is not a version", ErrKubernetesUntested, gitVersion)
	}
	minor := utilversion.MajorMinor(parsed.Major(), parsed.Minor())
	if minor.LessThan(utilversion.MustParseGeneric(OldestKubernetes)) {
		return fmt.Errorf("%w: %s is older than %s; upgrade the cluster to a version from %s", ErrKubernetesTooOld, gitVersion, OldestKubernetes, SupportedKubernetes)
	}
	if minor.GreaterThan(utilversion.MustParseGeneric(NewestKubernetes)) {
		return fmt.Errorf("%w: %s is newer than %s; check whether a newer version of Realmkeeper is available", ErrKubernetesUntested, gitVersion, NewestKubernetes)
	}
	return nil
}
