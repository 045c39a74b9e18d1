package install

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// polling starts with short intervals, because most conditions hold soon. They grow, because many
// tests wait at the same time, and their requests would keep the API servers busy.
var polling = wait.Backoff{Duration: 10 * time.Millisecond, Factor: 1.5, Cap: 100 * time.Millisecond, Steps: math.MaxInt32}

// Eventually waits until condition returns nil. After three minutes, the test fails with the last
// error.
func Eventually(t testing.TB, what string, condition func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	var last error
	err := polling.DelayFunc().Until(ctx, true, true, func(context.Context) (bool, error) {
		last = condition()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("Timed out waiting for %s: %v", what, last)
	}
}

// AwaitReady waits until the object's Ready condition has the given status and reason for the
// current generation. It updates obj with the state that it read.
func (i *Installation) AwaitReady(t testing.TB, obj client.Object, status metav1.ConditionStatus, reason v1beta1.ConditionReason) {
	t.Helper()
	Eventually(t, fmt.Sprintf("%T %s to be Ready=%s/%s", obj, client.ObjectKeyFromObject(obj), status, reason), func() error {
		if err := i.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(Conditions(obj), string(v1beta1.ConditionReady))
		if ready == nil {
			return fmt.Errorf("the Ready condition is missing")
		}
		if ready.Status != status || ready.Reason != string(reason) || ready.ObservedGeneration != obj.GetGeneration() {
			return fmt.Errorf("Ready is %s/%s for generation %d of %d: %s", ready.Status, ready.Reason, ready.ObservedGeneration, obj.GetGeneration(), ready.Message)
		}
		return nil
	})
}

// AwaitTokenServers waits until the Instance shows all token servers as Current.
func (i *Installation) AwaitTokenServers(t testing.TB) {
	t.Helper()
	instance := &v1beta1.Instance{ObjectMeta: metav1.ObjectMeta{Name: v1beta1.InstanceName}}
	Eventually(t, "the Instance to show all token servers", func() error {
		if err := i.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(instance), instance); err != nil {
			return err
		}
		current := 0
		for _, s := range instance.Status.TokenServers {
			if s.State == v1beta1.TokenServerCurrent {
				current++
			}
		}
		if current != len(i.servers) {
			return fmt.Errorf("%d of %d are Current: %+v", current, len(i.servers), instance.Status.TokenServers)
		}
		return nil
	})
}

// Conditions returns the conditions of a Realm, an ApiClient, or the Instance.
func Conditions(obj client.Object) []metav1.Condition {
	switch o := obj.(type) {
	case *v1beta1.Realm:
		return o.Status.Conditions
	case *v1beta1.ApiClient:
		return o.Status.Conditions
	case *v1beta1.Instance:
		return o.Status.Conditions
	}
	return nil
}

// NotFound returns nil if err reports that an object doesn't exist. Otherwise, even if err is nil,
// it returns an error.
func NotFound(err error) error {
	if err == nil {
		return errors.New("it still exists")
	}
	return client.IgnoreNotFound(err)
}

// cleanUpContext returns a context for cleanups. The test's own context is canceled before cleanups
// run.
func cleanUpContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

// AwaitSettled waits until the status of every Realm and ApiClient reflects the current generation
// and no object is progressing.
func (i *Installation) AwaitSettled(t testing.TB) {
	t.Helper()
	Eventually(t, "all objects to settle", func() error {
		realms, clients := &v1beta1.RealmList{}, &v1beta1.ApiClientList{}
		if err := i.Env.Client.List(t.Context(), realms); err != nil {
			return err
		}
		if err := i.Env.Client.List(t.Context(), clients); err != nil {
			return err
		}
		for k := range realms.Items {
			if err := settled(&realms.Items[k]); err != nil {
				return err
			}
		}
		for k := range clients.Items {
			if err := settled(&clients.Items[k]); err != nil {
				return err
			}
		}
		return nil
	})
}

func settled(obj client.Object) error {
	ready := meta.FindStatusCondition(Conditions(obj), string(v1beta1.ConditionReady))
	if ready == nil || ready.ObservedGeneration != obj.GetGeneration() || ready.Status == metav1.ConditionUnknown {
		return fmt.Errorf("%T %s is not settled", obj, client.ObjectKeyFromObject(obj))
	}
	return nil
}

// AwaitLiveServers waits until the operator knows that n token servers are live.
func (i *Installation) AwaitLiveServers(t testing.TB, n int) {
	t.Helper()
	Eventually(t, fmt.Sprintf("the operator to know %d token servers", n), func() error {
		instance := &v1beta1.Instance{}
		if err := i.Env.Client.Get(t.Context(), client.ObjectKey{Name: v1beta1.InstanceName}, instance); err != nil {
			return err
		}
		if live := instance.Status.LiveTokenServers; live == nil || int(*live) != n {
			return fmt.Errorf("its status is %+v", instance.Status)
		}
		return nil
	})
}

// quiet is how long a program must not write before it counts as idle.
const quiet = 3 * time.Second

// AwaitQuiet waits until the program behind the proxy has stopped writing.
func (i *Installation) AwaitQuiet(t testing.TB, p *FaultProxy) {
	t.Helper()
	writes, since := p.Writes(), time.Now()
	Eventually(t, "the program to stop writing", func() error {
		if now := p.Writes(); now != writes {
			writes, since = now, time.Now()
		}
		if time.Since(since) < quiet {
			return fmt.Errorf("%d writes so far, the last one at %s", writes, since)
		}
		return nil
	})
}

// AwaitEvent waits for an Event about an object.
func (i *Installation) AwaitEvent(t testing.TB, obj client.Object, kind string, reason v1beta1.EventReason) {
	t.Helper()
	Eventually(t, fmt.Sprintf("an Event %s %s about %s", kind, reason, obj.GetName()), func() error {
		events := &eventsv1.EventList{}
		if err := i.Env.Client.List(t.Context(), events); err != nil {
			return err
		}
		for k := range events.Items {
			if e := &events.Items[k]; e.Regarding.UID == obj.GetUID() && e.Type == kind && e.Reason == string(reason) {
				return nil
			}
		}
		return fmt.Errorf("there is none among %d", len(events.Items))
	})
}
