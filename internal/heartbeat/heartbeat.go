// Package heartbeat is how token servers tell the operator what they serve: each keeps a
// Lease with the newest resource version of the records that it has loaded.
package heartbeat

import (
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
)

const (
	// Label marks the Leases of token servers.
	Label = "auth.realmkeeper.dev/heartbeat"
	// LabelValue is the value of Label.
	LabelValue = "token-server"
	// LoadedAnnotation holds the newest resource version of the records that the server serves.
	LoadedAnnotation = "auth.realmkeeper.dev/loaded"
)

// How often a server writes its Lease, and how long the Lease holds.
const (
	// MinInterval is between two writes while the version moves.
	MinInterval = 500 * time.Millisecond
	// MaxInterval is between two writes while it doesn't.
	MaxInterval = 10 * time.Second
	// Duration is for how long a server counts as live after a write. It spans two lost ones.
	Duration = 30 * time.Second
)

// ErrInvalidLease says that a Lease isn't the heartbeat of a token server.
var ErrInvalidLease = errors.New("not a token server's heartbeat")

// Heartbeat is what one token server says of itself.
type Heartbeat struct {
	// Server is the identity of the server: its pod's name.
	Server string
	// Version is the newest resource version of the records that it serves.
	Version string
	// Renewed is the server's time of writing.
	Renewed time.Time
}

// LeaseName returns the name of the Lease of a server.
func LeaseName(server string) string { return "token-server-" + server }

// Lease returns the Lease that says h, for the given namespace.
func (h Heartbeat) Lease(namespace string) *coordinationv1ac.LeaseApplyConfiguration {
	return coordinationv1ac.Lease(LeaseName(h.Server), namespace).
		WithLabels(map[string]string{Label: LabelValue}).
		WithAnnotations(map[string]string{LoadedAnnotation: h.Version}).
		WithSpec(coordinationv1ac.LeaseSpec().
			WithHolderIdentity(h.Server).
			WithLeaseDurationSeconds(int32(Duration / time.Second)).
			WithRenewTime(metav1.NewMicroTime(h.Renewed)))
}

// Parse reads a Lease that Heartbeat.Lease made.
//
// The error is ErrInvalidLease.
func Parse(lease *coordinationv1.Lease) (Heartbeat, error) {
	version := lease.Annotations[LoadedAnnotation]
	if lease.Spec.HolderIdentity == nil || lease.Spec.RenewTime == nil {
		return Heartbeat{}, fmt.Errorf("%w: Lease %s/%s has no holder or no renew time", ErrInvalidLease, lease.Namespace, lease.Name)
	}
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return Heartbeat{}, fmt.Errorf("%w: Lease %s/%s: annotation %s: %w", ErrInvalidLease, lease.Namespace, lease.Name, LoadedAnnotation, err)
	}
	return Heartbeat{Server: *lease.Spec.HolderIdentity, Version: version, Renewed: lease.Spec.RenewTime.Time}, nil
}

// Reached reports whether version is at or past wanted. Versions that can't be compared haven't reached anything.
func Reached(version, wanted string) bool {
	order, err := resourceversion.CompareResourceVersion(version, wanted)
	return err == nil && order >= 0
}
