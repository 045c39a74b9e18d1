package acknowledgement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// operatorLease is the name of the operator's own Lease in the records namespace.
const operatorLease = "operator"

const (
	// checkInterval is the time between two checks, and renewInterval that between two renewals of the
	// operator's own Lease.
	checkInterval = time.Second
	renewInterval = 5 * time.Second
	// renewTimeout limits a renewal.
	renewTimeout = 5 * time.Second
	// maxGap is the maximum time between two proofs. After a longer one, the API server may have been
	// unavailable for the token servers, too, so they get another heartbeat.Duration to renew their Leases.
	maxGap = 2 * renewInterval
)

// Members marks the Leases of token servers that no longer renew them, and deletes those whose Pod is gone.
//
// The age of a Lease proves nothing: after an outage of the API server, all are old. A server therefore
// counts as dead only if this process has seen its Lease unchanged for heartbeat.Duration, while it led and
// renewed a Lease of its own, whose renewals arrived through the same watch. The mark is conditional on the
// resource version that was seen.
type Members struct {
	// These don't change.
	tracker *Tracker
	client  client.Client
	system  string // the namespace of the Pods
	lost    Lost

	// The goroutine that calls Check owns these fields.
	//
	// began is when the latest renewal began. renewed is the resource version that it wrote; empty once it
	// has arrived, and if it failed.
	began   time.Time
	renewed string
	// proven is when the latest renewal that arrived began, and since that of the first one after which no
	// gap was longer than maxGap.
	proven, since time.Time
}

// Lost persists that uses of credentials before a time may be missing. It is called before a Lease is
// deleted, because the Lease is the only sign that a token server may not have reported all uses.
type Lost func(ctx context.Context, c client.Client, before time.Time) error

// NewMembers returns the Members of a tracker. The Pods of the token servers are in the namespace system.
// Before each deletion of a Lease, lost is called.
func NewMembers(t *Tracker, c client.Client, system string, lost Lost) *Members {
	return &Members{tracker: t, client: c, system: system, lost: lost}
}

// Start checks the Leases until ctx is canceled. The manager runs it only on the leader.
func (m *Members) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, m.Check, checkInterval)
	return nil
}

// Check looks for dead servers if the latest renewal of the operator's Lease has arrived, and renews it if
// that is due. It doesn't wait for the arrival.
func (m *Members) Check(ctx context.Context) {
	if m.renewed != "" && m.tracker.hasArrived(m.renewed) {
		if m.began.Sub(m.proven) > maxGap {
			m.since = m.began
		}
		m.proven, m.renewed = m.began, ""
		m.removeDead(ctx)
	}
	if m.tracker.now().Sub(m.began) < renewInterval {
		return
	}
	log := ctrl.LoggerFrom(ctx)
	if m.renewed != "" {
		log.Info("The renewal of the operator's Lease has not arrived, so no token server counts as dead", "lease", operatorLease)
	}
	if err := m.renew(ctx); err != nil {
		log.Error(err, "Failed to renew the operator's Lease, so no token server counts as dead")
	}
}

// renew renews the operator's Lease. Its arrival proves that the watch delivers.
func (m *Members) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	m.began, m.renewed = m.tracker.now(), ""
	renewal := coordinationv1ac.Lease(operatorLease, m.tracker.namespace).
		WithLabels(map[string]string{heartbeat.Label: heartbeat.OperatorLabelValue, v1beta1.ManagedByLabel: v1beta1.ManagedBy}).
		WithSpec(coordinationv1ac.LeaseSpec().WithRenewTime(metav1.NewMicroTime(m.began)))
	if err := m.client.Apply(ctx, renewal, client.FieldOwner(v1beta1.FieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("writing Lease %s: %w", operatorLease, err)
	}
	m.renewed = *renewal.ResourceVersion
	return nil
}

// removeDead marks the Leases that have not changed, and deletes those of servers that are gone.
func (m *Members) removeDead(ctx context.Context) {
	servers := m.tracker.snapshot()
	for _, lease := range slices.Sorted(maps.Keys(servers)) {
		s := servers[lease]
		unchanged := m.proven.Sub(timestamp.Latest(s.observed, m.since)) >= heartbeat.Duration
		var err error
		switch {
		case s.Dead || s.mark == "" && unchanged:
			err = m.collect(ctx, lease, &s)
		case unchanged:
			err = m.mark(ctx, lease, &s)
		}
		if err != nil && !apierrors.IsConflict(err) { // A conflict means that the server has renewed the Lease.
			ctrl.LoggerFrom(ctx).Error(err, "Failed to remove a dead token server, will retry", "lease", lease)
		}
	}
}

// mark marks the Lease of a dead server. The API server rejects the mark if the server has renewed it.
func (m *Members) mark(ctx context.Context, lease string, s *server) error {
	marked := coordinationv1ac.Lease(lease, m.tracker.namespace).WithUID(s.uid).WithResourceVersion(s.revision).
		WithAnnotations(map[string]string{heartbeat.DeadAnnotation: s.mark})
	if err := m.client.Apply(ctx, marked, client.FieldOwner(v1beta1.FieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("marking Lease %s: %w", lease, err)
	}
	ctrl.LoggerFrom(ctx).Info("Token server does not renew its heartbeat Lease, no longer waiting for it", "lease", lease)
	return nil
}

// collect deletes the Lease of a server whose Pod is gone. Before that, the server may still serve, and
// have uses of credentials to report. Outside of a cluster, servers have no Pods. A Pod that can't be read
// may exist.
func (m *Members) collect(ctx context.Context, lease string, s *server) error {
	pod := &corev1.Pod{}
	err := m.tracker.api.Get(ctx, client.ObjectKey{Namespace: m.system, Name: serverOf(lease)}, pod)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Pod %s: %w", serverOf(lease), err)
	}
	if err == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		return nil
	}
	if err := m.lost(ctx, m.client, m.tracker.now()); err != nil {
		return fmt.Errorf("persisting that a token server may not have reported its uses: %w", err)
	}
	dead := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: m.tracker.namespace, Name: lease}}
	err = m.client.Delete(ctx, dead, client.Preconditions{UID: &s.uid, ResourceVersion: &s.revision})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Lease %s: %w", lease, err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted the heartbeat Lease of a dead token server", "lease", lease)
	return nil
}

// snapshot returns the known servers by the names of their Leases.
func (t *Tracker) snapshot() map[string]server {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.servers)
}

func (t *Tracker) setArrived(version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.arrived = version
}

// hasArrived reports whether the watch has delivered the operator's Lease at a version or a later one.
func (t *Tracker) hasArrived(version string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return heartbeat.Reached(t.arrived, version)
}
