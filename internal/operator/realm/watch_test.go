package realm

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
)

func TestNumberOfClientsWaits(t *testing.T) {
	const issuer = "https://api.example.com/acme"
	with := func(clients int32) v1beta1.RealmStatus { return v1beta1.RealmStatus{Issuer: issuer, Clients: &clients} }
	for name, test := range map[string]struct {
		before, after v1beta1.RealmStatus
		written       time.Duration // before now
		want          time.Duration
	}{
		"not counted yet":                 {before: v1beta1.RealmStatus{Issuer: issuer}, after: with(0), want: 0},
		"first client":                    {before: with(0), after: with(1), want: 0},
		"last written a second ago":       {before: with(1), after: with(2), written: time.Second, want: 5 * time.Second},
		"last client, a second ago":       {before: with(1), after: with(0), written: time.Second, want: 0},
		"last written 6 seconds ago":      {before: with(1), after: with(2), written: 6 * time.Second, want: 0},
		"something else has changed, too": {before: with(1), after: v1beta1.RealmStatus{Issuer: "other", Clients: new(int32(2))}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			realm := acme(func(r *v1beta1.Realm) { r.Status = test.before })
			statusWritten(realm, now.Add(-test.written))
			if got := countWait(realm, test.after, now); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// statusWritten sets the time at which the operator last wrote the status.
func statusWritten(realm *v1beta1.Realm, at time.Time) {
	realm.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: v1beta1.FieldOwner, Operation: metav1.ManagedFieldsOperationApply, Subresource: "status", Time: &metav1.Time{Time: at.Truncate(time.Second)},
	}}
}

// oneRealm is a client that knows one Realm.
type oneRealm struct {
	client.Client

	realm *v1beta1.Realm
}

func (c oneRealm) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.realm.DeepCopyInto(into.(*v1beta1.Realm))
	return nil
}

// The worker below takes the steps of a reconcile that concern the number of clients.
func TestManyClientsCauseFewWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, writes, reconciles := int32(0), 0, 0
		cached := acme(func(r *v1beta1.Realm) { r.Status.Clients = new(int32(0)) })
		q := queue.New("", queue.NewLimiter(), limits, func(reconcile.Request) bool { return false })
		work := func() {
			for q.Len() > 0 {
				request, _ := q.Get()
				reconciles++
				after := v1beta1.RealmStatus{Clients: new(clients)}
				wait := countWait(cached, after, time.Now())
				if wait > 0 {
					q.AddAfter(request, wait)
				} else {
					cached.Status, writes = after, writes+1
					statusWritten(cached, time.Now())
				}
				q.Done(request)
			}
		}
		const created = 20_000
		for range created {
			clients++
			object := &v1beta1.ApiClient{Spec: v1beta1.ApiClientSpec{RealmRef: v1beta1.RealmReference{Name: cached.Name}}}
			cache{oneRealm{realm: cached}}.countHandler(time.Now).Create(t.Context(), event.CreateEvent{Object: object}, q)
			synctest.Wait()
			work()
			if writes == 0 {
				t.Fatal("The first client was not written at once")
			}
			time.Sleep(time.Minute / created)
		}
		t.Logf("%d writes, %d reconciles", writes, reconciles)
		if writes > 12 || reconciles > 24 {
			t.Errorf("%d clients caused %d writes, want at most 12, and %d reconciles", created, writes, reconciles)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		work()
		if got := *cached.Status.Clients; got != created {
			t.Errorf("The status has %d clients, want %d", got, created)
		}
		q.ShutDown()
	})
}

// A pruning tool deletes the Realm some seconds after its last client, even if the number changed just before.
func TestLastClientIsGoneWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cached := acme(func(r *v1beta1.Realm) { r.Status.Clients = new(int32(2)) })
		statusWritten(cached, time.Now())
		q := queue.New("", queue.NewLimiter(), limits, func(reconcile.Request) bool { return false })
		defer q.ShutDown()
		clients := int32(2)
		for range 2 {
			clients--
			cache{oneRealm{realm: cached}}.countHandler(time.Now).Delete(t.Context(), event.DeleteEvent{Object: &v1beta1.ApiClient{Spec: v1beta1.ApiClientSpec{RealmRef: v1beta1.RealmReference{Name: cached.Name}}}}, q)
			time.Sleep(time.Second)
			synctest.Wait()
			if q.Len() == 0 {
				t.Fatalf("the Realm with %d clients is not reconciled within a second", clients)
			}
			request, _ := q.Get()
			if wait := countWait(cached, v1beta1.RealmStatus{Clients: new(clients)}, time.Now()); wait > 0 {
				q.AddAfter(request, wait)
			} else {
				cached.Status.Clients = new(clients)
			}
			q.Done(request)
		}
		testkit.Diff(t, "clients in the status", new(int32(0)), cached.Status.Clients)
	})
}

// A realm whose keys are lost must stay protected, too.
func TestStatusShowsClients(t *testing.T) {
	for name, change := range map[string]func(*v1beta1.Realm){
		"new":       func(*v1beta1.Realm) {},
		"lost keys": func(r *v1beta1.Realm) { r.Status.SigningKeys = []v1beta1.SigningKeyStatus{{KeyID: "a"}} },
	} {
		realm := acme(change)
		d := decidedAt(t, observed{realm: realm, clients: make([]v1beta1.ApiClient, 3)}, now)
		testkit.Diff(t, "clients of a Realm with "+name, new(int32(3)), status(realm, d, nil, instance()).Clients)
	}
}
