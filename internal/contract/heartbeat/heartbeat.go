// Package heartbeat defines the Leases that token servers use to report to the operator. Each
// server's Lease contains the latest resource version of the records that it has loaded.
package heartbeat

import (
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

const (
	// Label marks the heartbeat Leases.
	Label = "auth.realmkeeper.dev/heartbeat"
	// LabelValue is the value of Label for the Leases of token servers.
	LabelValue = "token-server"
	// OperatorLabelValue is the value of Label for the Lease of the operator.
	OperatorLabelValue = "operator"
	// LoadedAnnotation contains the latest resource version of the records that the server serves. It is
	// absent until the server has loaded the records.
	LoadedAnnotation = "auth.realmkeeper.dev/loaded"
	// SoftwareAnnotation contains the version of the server's software.
	SoftwareAnnotation = "auth.realmkeeper.dev/software-version"
	// DeadAnnotation contains the renew time with which the leader saw the Lease for so long that the
	// server counts as dead. The mark holds for this renew time only: a server that renews its Lease
	// counts again.
	DeadAnnotation = "auth.realmkeeper.dev/dead"
	// UsageAnnotation contains the time, in RFC 3339 format, before which the server has reported all
	// uses of credentials. It is absent until the server has done so for the first time.
	UsageAnnotation = "auth.realmkeeper.dev/usage-until"
	// ResolutionAnnotation contains the resolution of the reported uses, such as "1h0m0s".
	ResolutionAnnotation = "auth.realmkeeper.dev/usage-resolution"
)

// Intervals between writes of a Lease, and its duration.
const (
	// MinInterval is the minimum time between two writes while the version changes.
	MinInterval = 500 * time.Millisecond
	// MaxInterval is the time between two writes while the version is unchanged.
	MaxInterval = 10 * time.Second
	// Duration is the time after which the leader marks a Lease without writes as dead. It tolerates two
	// failed writes.
	Duration = 30 * time.Second
	// MaxJoin is how long a Lease without a version holds up the operator, from its creation.
	MaxJoin = 5 * time.Minute
)

// ErrMaxStaleness is returned for an invalid maximum staleness.
var ErrMaxStaleness = errors.New("must be 0s, or at least 30s because a shorter outage is not detected")

// ValidateMaxStaleness checks the time after which a token server without contact with the API
// server stops being ready; 0 means never. A server loses contact at the earliest when its
// heartbeats have been unanswered for Duration, so a shorter time can't be kept.
func ValidateMaxStaleness(d time.Duration) error {
	if d != 0 && d < Duration {
		return fmt.Errorf("%w, not %s", ErrMaxStaleness, d)
	}
	return nil
}

// ErrInvalidLease is returned for a Lease that isn't a valid heartbeat.
var ErrInvalidLease = errors.New("invalid heartbeat Lease")

// Heartbeat is the report of one token server.
type Heartbeat struct {
	// Server is the server's identity, which is the name of its Pod.
	Server string
	// Version is the latest resource version of the records that the server serves. It is empty until the
	// server has loaded the records.
	Version string
	// Software is the version of the server's software, such as "v0.1.0". Empty if it is unknown.
	Software string
	// Renewed is the time of the write on the server's clock.
	Renewed time.Time
	// UsageUntil is the time on the server's clock before which it has reported all uses of credentials
	// in its ConfigMaps; see package usage. Zero if it has not done so yet.
	UsageUntil time.Time
	// UsageResolution is the resolution of the reported uses. Zero if the server reports none.
	UsageResolution time.Duration
	// Refresh contains the server's requests for keys. The Lease contains the latest MaxRefreshes.
	Refresh []Refresh
	// UndecryptedPending contains the names of Realms whose Pending signing key the server has not decrypted
	// yet, and UndecryptedActive those of Realms whose Active one it has not, so that they get no tokens from
	// it. The two differ, because an Active key that can't be decrypted must not hold up the next one, which
	// replaces it. The Lease contains All instead of more than MaxNames names.
	UndecryptedPending, UndecryptedActive []string
	// Unreadable contains the names of the records that the server could not read, of which it serves the last
	// known good version, and of those with a restriction that it doesn't know, with the same limit.
	Unreadable []string
	// Dead means that the leader has marked the Lease since the server renewed it. Only the leader sets it.
	Dead bool
}

// LeaseName returns the name of a server's Lease.
func LeaseName(server string) string { return "token-server-" + server }

// Lease returns the Lease for h in the given namespace. It contains exactly the fields to apply.
func (h *Heartbeat) Lease(namespace string) *coordinationv1.Lease {
	annotations := map[string]string{}
	if h.Version != "" {
		annotations[LoadedAnnotation] = h.Version
	}
	if h.Software != "" {
		annotations[SoftwareAnnotation] = h.Software
	}
	if !h.UsageUntil.IsZero() {
		annotations[UsageAnnotation] = h.UsageUntil.UTC().Format(time.RFC3339)
	}
	if h.UsageResolution != 0 {
		annotations[ResolutionAnnotation] = h.UsageResolution.String()
	}
	if requests := encodeRefreshes(h.Refresh); requests != "" {
		annotations[RefreshAnnotation] = requests
	}
	for annotation, names := range map[string][]string{
		UndecryptedPendingAnnotation: h.UndecryptedPending, UndecryptedActiveAnnotation: h.UndecryptedActive, UnreadableAnnotation: h.Unreadable,
	} {
		if encoded := encodeNames(names); encoded != "" {
			annotations[annotation] = encoded
		}
	}
	return &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{
			Name: LeaseName(h.Server), Namespace: namespace, Labels: map[string]string{Label: LabelValue}, Annotations: annotations,
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &h.Server, LeaseDurationSeconds: new(int32(Duration / time.Second)), RenewTime: new(metav1.NewMicroTime(h.Renewed)),
		},
	}
}

// Parse returns the heartbeat in a Lease that Heartbeat.Lease created. The error wraps
// ErrInvalidLease. The requests for keys are not part of it; see ParseRefresh.
func Parse(lease *coordinationv1.Lease) (Heartbeat, error) {
	version := lease.Annotations[LoadedAnnotation]
	if lease.Spec.HolderIdentity == nil || lease.Spec.RenewTime == nil {
		return Heartbeat{}, fmt.Errorf("%w: %s/%s has no holder or no renew time", ErrInvalidLease, lease.Namespace, lease.Name)
	}
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil && version != "" {
		return Heartbeat{}, fmt.Errorf("%w: %s/%s: annotation %s: %w", ErrInvalidLease, lease.Namespace, lease.Name, LoadedAnnotation, err)
	}
	// An invalid usage annotation doesn't invalidate the heartbeat. The server only counts as not
	// having reported any uses.
	until, err := time.Parse(time.RFC3339, lease.Annotations[UsageAnnotation])
	if err != nil {
		until = time.Time{}
	}
	resolution, err := time.ParseDuration(lease.Annotations[ResolutionAnnotation])
	if err != nil {
		resolution = 0
	}
	return Heartbeat{
		Server: *lease.Spec.HolderIdentity, Version: version, Software: parseSoftware(lease.Annotations[SoftwareAnnotation]), Renewed: lease.Spec.RenewTime.Time, UsageUntil: until, UsageResolution: resolution,
		UndecryptedPending: parseNames(lease.Annotations[UndecryptedPendingAnnotation]),
		UndecryptedActive:  parseNames(lease.Annotations[UndecryptedActiveAnnotation]),
		Unreadable:         parseNames(lease.Annotations[UnreadableAnnotation]),
		Dead:               lease.Annotations[DeadAnnotation] == DeadMark(lease),
	}, nil
}

// maxSoftware is the maximum length of the version of the software.
const maxSoftware = 128

// parseSoftware returns the version of the software, or an empty string for a value that isn't one. The
// operator shows it to users, so it contains no other characters than those of versions.
func parseSoftware(value string) string {
	unusual := func(r rune) bool {
		letterOrDigit := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letterOrDigit && !strings.ContainsRune("-.+_", r)
	}
	if len(value) > maxSoftware || strings.ContainsFunc(value, unusual) {
		return ""
	}
	return value
}

// DeadMark returns the value of DeadAnnotation that marks a Lease as dead.
func DeadMark(lease *coordinationv1.Lease) string {
	return lease.Spec.RenewTime.UTC().Format(metav1.RFC3339Micro)
}

// Reached reports whether version is equal to or newer than wanted. It returns false for versions
// that can't be compared.
func Reached(version, wanted string) bool {
	order, err := resourceversion.CompareResourceVersion(version, wanted)
	return err == nil && order >= 0
}
