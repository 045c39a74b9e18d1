// Package leader owns the Lease that decides which process writes the records of an instance: an
// operator, or a restore of a backup. Operators get it through client-go's leader election. A restore
// takes it from an operator and holds it for its duration.
package leader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// LeaseName is the name of the Lease in the system namespace.
const LeaseName = "realmkeeper-operator"

// restorePrefix is the start of the holder identity of a restore. The rest is a UUID.
const restorePrefix = "restore/"

const (
	// RestoreDuration is the duration of the Lease of a restore. Operators wait this long after the last
	// renewal before they take the Lease, and must not clear it before.
	RestoreDuration = time.Hour
	// renewInterval is the time between two renewals of a restore.
	renewInterval = 10 * time.Second
	// renewDeadline is how long a restore continues without a successful renewal.
	renewDeadline = 30 * time.Second
	// staleAfter is the time without a renewal after which another restore can take the Lease, or
	// Abort releases it. The other restore has stopped by then.
	staleAfter = time.Minute
	// operatorDuration is the longest duration of the Lease of an operator, in all versions.
	operatorDuration = time.Minute
	// maxAhead is how far the last renewal of a restore can be ahead of an operator's clock: each is within a
	// minute of the API server's clock.
	maxAhead = 5 * time.Minute
)

// Errors that say who holds the Lease.
var (
	// ErrRestoreRunning means that another restore holds the Lease and renews it.
	ErrRestoreRunning = errors.New("another restore is running")
	// ErrRestoreHolds means that an operator can't work because a restore holds the Lease.
	ErrRestoreHolds = errors.New("a restore holds the leader Lease")
	// ErrLost means that a restore no longer holds the Lease.
	ErrLost = errors.New("the restore no longer holds the leader Lease; restore again")
)

// Restore describes a restore that holds the Lease.
type Restore struct {
	// Holder is its identity, restore/<uuid>.
	Holder string `json:"holder"`
	// Since is the time at which it took the Lease, and Renewed that of the last renewal.
	Since   time.Time `json:"since"`
	Renewed time.Time `json:"renewed"`
	// Running means that it has renewed the Lease within the last minute. A renewal in the future doesn't
	// count.
	Running bool `json:"running"`
}

// String says who holds the Lease and since when.
func (r *Restore) String() string {
	return fmt.Sprintf("%s, which took it at %s and renewed it at %s", r.Holder, timestamp.Format(r.Since), timestamp.Format(r.Renewed))
}

// FindRestore returns the restore that holds the Lease at the given time of the API server; nil if there
// is none.
func FindRestore(ctx context.Context, c client.Reader, namespace string, now time.Time) (*Restore, error) {
	lease, err := read(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	return restoreOf(lease, now), nil
}

func restoreOf(lease *coordinationv1.Lease, now time.Time) *Restore {
	holder := holderOf(lease)
	if !strings.HasPrefix(holder, restorePrefix) {
		return nil
	}
	r := &Restore{Holder: holder}
	if lease.Spec.AcquireTime != nil {
		r.Since = lease.Spec.AcquireTime.Time
	}
	if lease.Spec.RenewTime != nil {
		r.Renewed = lease.Spec.RenewTime.Time
	}
	if now.Sub(r.Renewed) > RestoreDuration {
		return nil // expired, as for any candidate
	}
	r.Running = now.Sub(r.Renewed).Abs() < staleAfter
	return r
}

// maxDuration returns the longest duration of a holder's Lease.
func maxDuration(holder string) time.Duration {
	if strings.HasPrefix(holder, restorePrefix) {
		return RestoreDuration
	}
	return operatorDuration
}

func durationOf(lease *coordinationv1.Lease) time.Duration {
	if lease.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	return time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
}

// impossible reports whether neither an operator nor a restore has written a Lease. Someone with the credentials
// of the operator can, and no operator would ever lead. client-go ignores the time of the renewal, which is
// that of the node's clock for an operator.
func impossible(lease *coordinationv1.Lease, now time.Time) bool {
	holder, renewed := holderOf(lease), lease.Spec.RenewTime
	return durationOf(lease) > maxDuration(holder) || strings.HasPrefix(holder, restorePrefix) && renewed != nil && renewed.Sub(now) > maxAhead
}

// CheckNoRestore returns an error if a restore holds the Lease. An operator without leader election calls
// it before it starts.
//
// Errors: ErrRestoreHolds.
func CheckNoRestore(ctx context.Context, c client.Reader, namespace string, now time.Time) error {
	r, err := FindRestore(ctx, c, namespace, now)
	if err != nil || r == nil {
		return err
	}
	return fmt.Errorf("%w %s/%s: %s; wait until it is done, or, if it has stopped, run it again or release the Lease with \"kubectl realmkeeper restore --abort\"",
		ErrRestoreHolds, namespace, LeaseName, r)
}

// stoppedAfter is the time without a renewal after which no operator leads. Another one usually takes over within
// seconds.
const stoppedAfter = 30 * time.Second

// FindStopped returns when the last leader renewed the Lease, if no operator has renewed it for 30 seconds at the
// given time of the API server, or if the time is more than an hour in the future, which no leader writes. It
// returns zero while an operator leads, and if none ever has.
func FindStopped(ctx context.Context, c client.Reader, namespace string, now time.Time) (time.Time, error) {
	lease, err := read(ctx, c, namespace)
	if err != nil || lease == nil || lease.Spec.RenewTime == nil {
		return time.Time{}, err
	}
	if age := now.Sub(lease.Spec.RenewTime.Time); age < stoppedAfter && age > -time.Hour {
		return time.Time{}, nil
	}
	return lease.Spec.RenewTime.Time, nil
}

// read returns the Lease, or nil if there is none.
func read(ctx context.Context, c client.Reader, namespace string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: LeaseName}, lease)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // A missing Lease is not an error.
	}
	if err != nil {
		return nil, fmt.Errorf("reading the leader Lease %s/%s: %w", namespace, LeaseName, err)
	}
	return lease, nil
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func micro(at time.Time) *metav1.MicroTime { return &metav1.MicroTime{Time: at} }
