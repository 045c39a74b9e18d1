package leader_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
)

func TestCandidate(t *testing.T) {
	const own = "operator-b_2"
	state := func(s corev1.ContainerState) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "operator", State: s}}}
	}
	started := func(after time.Duration) corev1.PodStatus { // after the Lease was acquired
		at := metav1.NewTime(held("", 0).Spec.AcquireTime.Add(after))
		return state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}})
	}
	for name, test := range map[string]struct {
		identity  string // own by default
		holder    string
		ago       time.Duration
		duration  int32 // of the Lease, in seconds; 12 by default
		wantAfter string
		status    func() corev1.PodStatus // of Pod operator-a, if it matters
	}{
		"the container waits": {holder: "operator-a_1", wantAfter: "", status: func() corev1.PodStatus {
			return state(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})
		}},
		"the Pod exists":           {holder: "operator-a_1", wantAfter: "operator-a_1"},
		"both outside the cluster": {identity: "outside/laptop_2", holder: "outside/laptop_1", wantAfter: "outside/laptop_1"},
		"the container runs":       {holder: "operator-a_1", wantAfter: "operator-a_1", status: func() corev1.PodStatus { return started(-time.Minute) }},
		"another container runs":   {holder: "operator-a_1", wantAfter: "", status: func() corev1.PodStatus { return started(time.Minute) }},
		"the container has ended": {holder: "operator-a_1", wantAfter: "", status: func() corev1.PodStatus {
			return state(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})
		}},
		"the Pod was evicted": {holder: "operator-a_1", wantAfter: "", status: func() corev1.PodStatus { return corev1.PodStatus{Phase: corev1.PodFailed} }},
		"the Pod is gone":     {holder: "operator-c_1", wantAfter: ""},
		"a former container":  {holder: "operator-b_1", wantAfter: ""},
		"this process":        {holder: own, wantAfter: own},
		"a restore":           {holder: "restore/1", wantAfter: "restore/1"},
		"outside the cluster": {holder: "outside/laptop_1", wantAfter: "outside/laptop_1"},
		"an unknown identity": {holder: "operator", wantAfter: "operator"},
		"no holder":           {holder: ""},

		"a restore with the longest duration":      {holder: "restore/1", duration: 3600, wantAfter: "restore/1"},
		"a restore with an impossible duration":    {holder: "restore/1", duration: math.MaxInt32, wantAfter: ""},
		"an operator with an impossible duration":  {holder: "operator", duration: 3600, wantAfter: ""},
		"a restore that is slightly ahead":         {holder: "restore/1", ago: -4 * time.Minute, wantAfter: "restore/1"},
		"a restore that was renewed in the future": {holder: "restore/1", ago: -farFuture, wantAfter: ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				scheme := runtime.NewScheme()
				for _, add := range []func(*runtime.Scheme) error{coordinationv1.AddToScheme, corev1.AddToScheme} {
					testkit.Do(t, add(scheme))
				}
				var objects []runtime.Object
				for _, name := range []string{"operator-a", "operator-b"} {
					pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name}}
					if test.status != nil {
						pod.Status = test.status()
					}
					objects = append(objects, pod)
				}
				lease := held(test.holder, test.ago)
				if test.duration != 0 {
					lease.Spec.LeaseDurationSeconds = &test.duration
				}
				c := fake.NewClientBuilder().WithScheme(scheme).WithRuntimeObjects(append(objects, lease)...).Build()
				identity := own
				if test.identity != "" {
					identity = test.identity
				}
				elected := make(chan struct{})
				candidate := leader.Candidate{Client: c, Live: c, Namespace: "system", Identity: identity, FieldOwner: "test", Elected: elected, Now: time.Now, Report: func(string, error) {}}
				time.AfterFunc(3*time.Second, func() { close(elected) })
				testkit.Do(t, candidate.Start(t.Context()))
				if got := *current(t, &leader.Restorer{Client: c}).Spec.HolderIdentity; got != test.wantAfter {
					t.Errorf("The holder is %q, want %q", got, test.wantAfter)
				}
			})
		})
	}
}

// A holder that renews the Lease at the same time keeps it.
func TestCandidateClearsOnlyWhatItHasRead(t *testing.T) {
	r := restorer(t, held("operator-a_1", 0))
	stale := current(t, r)
	renewed := stale.DeepCopy()
	renewed.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(time.Second)}
	testkit.Do(t, r.Client.Update(t.Context(), renewed))
	candidate := leader.Candidate{Client: r.Client, Live: onlyLease{r.Client, stale}, Namespace: "system", Identity: "operator-a_2", FieldOwner: "test", Now: time.Now}
	elected := make(chan struct{})
	close(elected)
	candidate.Elected = elected
	candidate.Report = func(cleared string, err error) { t.Errorf("reported %q, %v", cleared, err) }
	testkit.Do(t, candidate.Start(t.Context()))
	if got := *current(t, r).Spec.HolderIdentity; got != "operator-a_1" {
		t.Errorf("The holder is %q", got)
	}
}

// A process that cleared the Lease of its former container knows later whether another process has held it since.
func TestFirstSince(t *testing.T) {
	former := held("operator-a_1", 0)
	former.UID = "1"
	for name, test := range map[string]struct {
		identity string // of this process
		then     func(lease *coordinationv1.Lease)
		want     bool
	}{
		"the next holder":        {identity: "operator-a_2", then: func(*coordinationv1.Lease) {}, want: true},
		"another one in between": {identity: "operator-a_2", then: func(lease *coordinationv1.Lease) { lease.Spec.LeaseTransitions = new(int32(2)) }},
		"another Lease":          {identity: "operator-a_2", then: func(lease *coordinationv1.Lease) { lease.UID = "2" }},
		"another one leads":      {identity: "outside/laptop_2", then: func(*coordinationv1.Lease) {}},
	} {
		t.Run(name, func(t *testing.T) {
			r := restorer(t, former.DeepCopy())
			candidate := leader.Candidate{Client: r.Client, Live: r.Client, Namespace: "system", Identity: test.identity, FieldOwner: "test", Now: time.Now, Report: func(_ string, err error) {
				if err != nil && test.want {
					t.Error(err)
				}
			}}
			vacant := candidate.Vacant(t.Context())
			lease := current(t, r)
			lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = &test.identity, new(int32(1))
			test.then(lease)
			testkit.Do(t, r.Client.Update(t.Context(), lease))
			if got := candidate.FirstSince(t.Context(), vacant); got != test.want {
				t.Errorf("got %t, want %t; it was %v", got, test.want, vacant)
			}
		})
	}
}

// onlyLease is a reader that answers with an old version of the Lease.
type onlyLease struct {
	client.Reader

	lease *coordinationv1.Lease
}

// Get returns the Lease.
func (o onlyLease) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	o.lease.DeepCopyInto(into.(*coordinationv1.Lease)) //nolint:forcetypeassert // Nothing else is read.
	return nil
}
