package leader_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
)

// farFuture is later than any clock can be ahead.
const farFuture = 200 * 365 * 24 * time.Hour

// held returns the Lease of a holder that has renewed it some time ago.
func held(holder string, ago time.Duration) *coordinationv1.Lease {
	at := &metav1.MicroTime{Time: time.Now().Add(-ago)}
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: leader.LeaseName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(int32(12)), AcquireTime: at, RenewTime: at},
	}
}

func restorer(t *testing.T, leases ...client.Object) *leader.Restorer {
	t.Helper()
	scheme := runtime.NewScheme()
	testkit.Do(t, coordinationv1.AddToScheme(scheme))
	return &leader.Restorer{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(leases...).Build(), Namespace: "system", FieldOwner: "test", Now: time.Now,
		Waiting: func(string, time.Duration) {},
	}
}

func current(t *testing.T, r *leader.Restorer) *coordinationv1.Lease {
	t.Helper()
	lease := &coordinationv1.Lease{}
	testkit.Do(t, r.Client.Get(t.Context(), client.ObjectKey{Namespace: "system", Name: leader.LeaseName}, lease))
	return lease
}

func TestAcquire(t *testing.T) {
	for name, test := range map[string]struct {
		holder   string // "-" for no Lease
		ago      time.Duration
		duration int32 // of the Lease, in seconds; 12 by default
		wantWait time.Duration
		wantErr  error
	}{
		"no Lease":                {holder: "-"},
		"released":                {holder: ""},
		"operator with old clock": {holder: "operator-0", ago: time.Hour, wantWait: 12 * time.Second},
		"running restore":         {holder: "restore/1", ago: 30 * time.Second, wantErr: leader.ErrRestoreRunning},
		"stopped restore":         {holder: "restore/1", ago: 2 * time.Minute},
		"restore of the future":   {holder: "restore/1", ago: -farFuture},
		"endless operator":        {holder: "operator-0", duration: math.MaxInt32, wantWait: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := restorer(t)
				if test.holder != "-" {
					lease := held(test.holder, test.ago)
					if test.duration != 0 {
						lease.Spec.LeaseDurationSeconds = &test.duration
					}
					r = restorer(t, lease)
				}
				start := time.Now()
				ctx, h, err := r.Acquire(t.Context())
				if !errors.Is(err, test.wantErr) || time.Since(start) != test.wantWait {
					t.Fatalf("Acquire: %v after %s, want %v after %s", err, time.Since(start), test.wantErr, test.wantWait)
				}
				if err != nil {
					if !strings.Contains(err.Error(), test.holder) {
						t.Errorf("The error does not name the holder: %v", err)
					}
					return
				}
				if got := current(t, r).Spec; !strings.HasPrefix(*got.HolderIdentity, "restore/") || *got.LeaseDurationSeconds != 3600 {
					t.Errorf("The Lease is %+v", got)
				}
				time.Sleep(10 * time.Minute) // It renews the Lease meanwhile.
				if age := time.Since(current(t, r).Spec.RenewTime.Time); ctx.Err() != nil || age > 20*time.Second {
					t.Errorf("The Lease was renewed %s ago: %v", age, context.Cause(ctx))
				}
				h.Release(t.Context())
				if got := current(t, r).Spec; *got.HolderIdentity != "" || ctx.Err() == nil {
					t.Errorf("After the release, the Lease is %+v", got)
				}
			})
		})
	}
}

// client-go clears the Lease if a leader stops before its next renewal, even if it no longer holds it.
// Another operator can then take it.
func TestAcquireAgainAfterLeaderClearedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := restorer(t, held("operator-0", 0))
		time.AfterFunc(time.Second, func() {
			lease := current(t, r)
			*lease.Spec.HolderIdentity = "operator-1"
			if err := r.Client.Update(t.Context(), lease); err != nil {
				t.Error(err)
			}
		})
		start := time.Now()
		_, h, err := r.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer h.Release(t.Context())
		if got := time.Since(start); got < 24*time.Second {
			t.Errorf("The restore starts after %s, although another operator took the Lease meanwhile", got)
		}
	})
}

// A restore that loses the Lease, or can't renew it, stops.
func TestLost(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *leader.Restorer){
		"taken by another": func(t *testing.T, r *leader.Restorer) {
			t.Helper()
			lease := current(t, r)
			*lease.Spec.HolderIdentity = "operator-1"
			testkit.Do(t, r.Client.Update(t.Context(), lease))
		},
		"unavailable": func(_ *testing.T, r *leader.Restorer) { r.Client.(*unreliable).down.Store(true) }, //nolint:forcetypeassert // It is one.
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := restorer(t)
				r.Client = &unreliable{Client: r.Client}
				ctx, h, err := r.Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer h.Release(t.Context())
				lose(t, r)
				time.Sleep(time.Minute)
				if !errors.Is(context.Cause(ctx), leader.ErrLost) {
					t.Errorf("The cause is %v, want ErrLost", context.Cause(ctx))
				}
			})
		})
	}
}

// unreliable is a client of an API server that can be unavailable.
type unreliable struct {
	client.Client

	down atomic.Bool
}

// Update fails while the API server is unavailable.
func (u *unreliable) Update(ctx context.Context, obj client.Object, options ...client.UpdateOption) error {
	if u.down.Load() {
		return apierrors.NewServiceUnavailable("test")
	}
	return u.Client.Update(ctx, obj, options...)
}

func TestCheckNoRestore(t *testing.T) {
	for name, test := range map[string]struct {
		holder  string
		ago     time.Duration
		wantErr error
	}{
		"released":        {holder: ""},
		"stopped restore": {holder: "restore/1", ago: 59 * time.Minute, wantErr: leader.ErrRestoreHolds},
		"expired":         {holder: "restore/1", ago: 61 * time.Minute},
	} {
		r := restorer(t, held(test.holder, test.ago))
		if err := leader.CheckNoRestore(t.Context(), r.Client, "system", time.Now()); !errors.Is(err, test.wantErr) {
			t.Errorf("%s: %v, want %v", name, err, test.wantErr)
		}
	}
}

// An operator that hands over or is replaced is not missing.
func TestFindStopped(t *testing.T) {
	for name, test := range map[string]struct {
		leases []client.Object
		want   bool
	}{
		"no operator has led":    {nil, false},
		"an operator leads":      {[]client.Object{held("operator-1", 2*time.Second)}, false},
		"another one takes over": {[]client.Object{held("", 29*time.Second)}, false},
		"it was killed":          {[]client.Object{held("operator-1", 30*time.Second)}, true},
		"it was stopped":         {[]client.Object{held("", time.Hour)}, true},
		"its clock is ahead":     {[]client.Object{held("operator-1", -time.Minute)}, false},
		"the time is impossible": {[]client.Object{held("operator-1", -farFuture)}, true},
	} {
		r := restorer(t, test.leases...)
		stopped, err := leader.FindStopped(t.Context(), r.Client, "system", time.Now())
		if err != nil || stopped.IsZero() == test.want {
			t.Errorf("%s: stopped at %s, %v; want a time: %t", name, stopped, err, test.want)
		}
	}
}

func TestAbort(t *testing.T) {
	r := restorer(t, held("restore/1", time.Second))
	if _, err := r.Abort(t.Context()); !errors.Is(err, leader.ErrRestoreRunning) {
		t.Errorf("Abort of a running restore: %v", err)
	}
	r = restorer(t, held("restore/1", 2*time.Minute))
	if got, err := r.Abort(t.Context()); err != nil || got == nil || got.Holder != "restore/1" || *current(t, r).Spec.HolderIdentity != "" {
		t.Errorf("Abort: %+v, %v", got, err)
	}
	r = restorer(t, held("restore/1", -farFuture))
	if got, err := r.Abort(t.Context()); err != nil || got == nil || *current(t, r).Spec.HolderIdentity != "" {
		t.Errorf("Abort of a restore that was renewed in the future: %+v, %v", got, err)
	}
	r = restorer(t, held("operator-0", 2*time.Minute))
	if got, err := r.Abort(t.Context()); err != nil || got != nil || *current(t, r).Spec.HolderIdentity != "operator-0" {
		t.Errorf("Abort without a restore: %+v, %v", got, err)
	}
}
