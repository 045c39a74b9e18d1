package leader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// container is the name of the operator's container in its Pod.
	container = "operator"
	// checkInterval is the time between two checks of the holder's Pod.
	checkInterval = 500 * time.Millisecond
	// checkTimeout limits each look.
	checkTimeout = 5 * time.Second
	// outside is the start of the identity of an operator that runs in no Pod.
	outside = "outside/"
)

// NewIdentity returns a new holder identity of an operator: <pod>_<uuid>, or outside/<hostname>_<uuid> if
// it runs in no Pod. No Pod has a name with a slash.
func NewIdentity(pod string) (string, error) {
	if pod == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("reading the host name for the holder identity: %w", err)
		}
		pod = outside + host
	}
	return pod + "_" + string(uuid.NewUUID()), nil
}

// Candidate clears the Lease of a leader whose container or Pod is gone, so that another operator needn't wait
// until it expires. API servers soon reject the token of a deleted Pod. A leader with the name of this process's
// own Pod ran in a former container of it. Candidate also clears a Lease that no leader has written, which can be
// valid for decades. All fields are required.
type Candidate struct {
	Client client.Client
	// Live doesn't read from a cache.
	Live client.Reader
	// Namespace is the system namespace.
	Namespace string
	// Identity is the holder identity of this process.
	Identity string
	// FieldOwner is the field manager of the writes.
	FieldOwner client.FieldOwner
	// Elected is closed when this process is elected.
	Elected <-chan struct{}
	// Now returns the time, within a minute of that of the API server.
	Now func() time.Time
	// Report is called with the former holder of a Lease that was cleared, or with the error of a check, which
	// is repeated.
	Report func(cleared string, err error)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Candidate) NeedLeaderElection() bool { return false }

// Start checks the holder's Pod until this process is elected or ctx is done.
func (c *Candidate) Start(ctx context.Context) error {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		c.check(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-c.Elected:
			return nil
		case <-ticker.C:
		}
	}
}

// Vacant clears the Lease if the holder is gone, and returns it if no process holds it; nil if one does, or if the
// Lease can't be read.
func (c *Candidate) Vacant(ctx context.Context) *coordinationv1.Lease {
	c.check(ctx)
	lease, err := read(ctx, c.Live, c.Namespace)
	if err != nil || holderOf(lease) != "" {
		return nil
	}
	return lease
}

// FirstSince reports whether the holder of the Lease is the first one since no process held it. vacant is the Lease
// at that time; nil if that is unknown.
func (c *Candidate) FirstSince(ctx context.Context, vacant *coordinationv1.Lease) bool {
	if vacant == nil {
		return false
	}
	lease, err := read(ctx, c.Live, c.Namespace)
	return err == nil && lease != nil && lease.UID == vacant.UID && transitions(lease) == transitions(vacant)+1
}

func transitions(lease *coordinationv1.Lease) int32 {
	if lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return *lease.Spec.LeaseTransitions
}

// check clears the Lease if the holder is gone, and reports that.
func (c *Candidate) check(ctx context.Context) {
	if cleared, err := c.clear(ctx); (err != nil || cleared != "") && !errors.Is(err, context.Canceled) {
		c.Report(cleared, err)
	}
}

// clear clears the Lease if the holder is gone, and returns the holder; empty if it isn't.
func (c *Candidate) clear(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	lease, err := read(ctx, c.Live, c.Namespace)
	if err != nil {
		return "", err
	}
	holder := holderOf(lease)
	gone, err := c.gone(ctx, holder, lease)
	if err != nil || !gone {
		return "", err
	}
	// The update depends on the resource version, so a leader that renews the Lease keeps it.
	err = clearHolder(ctx, c.Client, lease, c.Now(), c.FieldOwner)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("clearing the leader Lease of %s: %w", holder, err)
	}
	return holder, nil
}

// gone reports whether the process of the holder of a Lease has ended.
func (c *Candidate) gone(ctx context.Context, holder string, lease *coordinationv1.Lease) (bool, error) {
	if holder != "" && impossible(lease, c.Now()) {
		return true, nil
	}
	name, ok := podOf(holder)
	if !ok || holder == c.Identity {
		return false, nil
	}
	if own, ok := podOf(c.Identity); ok && name == own {
		return true, nil
	}
	pod := &corev1.Pod{}
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, pod)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Pod %s of the leader: %w", name, err)
	}
	return ended(pod, lease), nil
}

// ended reports whether the container in which a Pod's operator acquired a Lease has ended.
func ended(pod *corev1.Pod, lease *coordinationv1.Lease) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	if i < 0 {
		return false
	}
	state := pod.Status.ContainerStatuses[i].State
	if state.Running == nil {
		return state.Terminated != nil || state.Waiting != nil
	}
	return lease.Spec.AcquireTime != nil && state.Running.StartedAt.After(lease.Spec.AcquireTime.Time)
}

// podOf returns the name of the Pod in a holder identity. A restore and an operator outside the cluster
// have none.
func podOf(holder string) (string, bool) {
	pod, _, ok := strings.Cut(holder, "_")
	return pod, ok && pod != "" && !strings.Contains(pod, "/")
}

// clearHolder clears the holder of the Lease, if the Lease is still as given.
func clearHolder(ctx context.Context, c client.Client, lease *coordinationv1.Lease, now time.Time, owner client.FieldOwner) error {
	cleared := lease.DeepCopy()
	// As client-go does: candidates needn't wait for a Lease without a holder.
	cleared.Spec.HolderIdentity, cleared.Spec.LeaseDurationSeconds = new(""), new(int32(1))
	cleared.Spec.RenewTime, cleared.Spec.AcquireTime = micro(now), micro(now)
	return c.Update(ctx, cleared, owner)
}
