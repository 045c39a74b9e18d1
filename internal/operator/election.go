package operator

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	k8sevents "k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
)

// If the Pod of a leader is gone, a standby operator is elected within 3 seconds: it looks at the Pod twice a
// second, and client-go tries again after up to 2.2 times the retryPeriod. If the Pod still exists, because
// its node is lost, it takes 12 seconds at most: leaseDuration and a retry after the last renewal. A leader that
// can't renew its Lease stops before the Lease expires.
const (
	leaseDuration = 9 * time.Second
	renewDeadline = 8 * time.Second
	retryPeriod   = 750 * time.Millisecond
)

// newLock returns the leader Lease. Its identity names the Pod, unlike that of controller-runtime, which
// names the host also outside a cluster.
func newLock(cfg *rest.Config, o Options) (*resourcelock.LeaseLock, error) {
	identity, err := leader.NewIdentity(o.Pod)
	if err != nil {
		return nil, err
	}
	cfg = rest.AddUserAgent(rest.CopyConfig(cfg), "leader-election")
	cfg.Timeout = renewDeadline / 2 // A single request without an answer must not end the leadership.
	leases, err := coordinationv1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("creating the client of the leader Lease: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: o.Instance.SystemNamespace, Name: leader.LeaseName},
		Client:    leases, LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}, nil
}

// electionEvents records the Events of client-go's leader election.
type electionEvents struct{ recorder k8sevents.EventRecorder }

// Eventf implements resourcelock.EventRecorder.
func (e electionEvents) Eventf(lease runtime.Object, eventType, reason, message string, args ...any) {
	e.recorder.Eventf(lease, nil, eventType, reason, "Elect", message, args...)
}

// newCandidate returns the candidate of a standby operator, which takes over from a leader that is gone.
func newCandidate(mgr ctrl.Manager, namespace, identity string, now func() time.Time) *leader.Candidate {
	return &leader.Candidate{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: namespace, Identity: identity,
		FieldOwner: v1beta1.FieldOwner, Elected: mgr.Elected(), Now: now,
		Report: func(cleared string, err error) {
			if err != nil {
				ctrl.Log.Info("Failed to check whether the leader's Pod exists, will retry", "error", err.Error())
				return
			}
			ctrl.Log.Info("Released the Lease of a leader that is gone", "holder", cleared)
		},
	}
}
