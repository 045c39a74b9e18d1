package clients_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// Each change of a Realm or an ApiClient is told by one Event, with the words of its status.
// A write that fails is no reason to tell twice, and a restart of the operator tells nothing.
func TestEventsTellEachChangeOnce(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{SpeedUp: 3600})
	proxy := inst.StartFaultProxy(t, install.Faults{Of: func(number int) install.Fault {
		if number%3 == 0 {
			return install.Rejected
		}
		return install.NoFault
	}})
	inst.StartOperator(t, inst.KubeconfigFor(t, proxy.URL))
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	realm := install.Realm("acme")
	c := install.ApiClient(cluster.Namespace(t), "billing", "acme", func(c *v1alpha1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(nil, time.Second) })
	inst.Create(t, realm, c)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	ofRealm, ofClient := tellingOf(t, inst, realm), tellingOf(t, inst, c)

	install.Change(t, inst, realm, func(r *v1alpha1.Realm) { r.Spec.Suspend = true })
	ofRealm.goesOn(t, "Normal Suspended")
	ofClient.goesOn(t, "Warning RealmNotReady")
	install.Change(t, inst, realm, func(r *v1alpha1.Realm) { r.Spec.Suspend = false })
	ofRealm.goesOn(t, "Normal Ready")
	ofClient.goesOn(t, "Normal Ready")
	install.Change(t, inst, realm, func(r *v1alpha1.Realm) {
		r.Spec.Signing.RotateAfter = &metav1.Time{Time: r.Status.SigningKeys[0].CreatedAt.Add(time.Second)}
	})
	ofRealm.goesOn(t, "Normal SigningKeyRotated")
	scenario.RotateSecret(t, inst, c)
	scenario.AwaitSecretRotated(t, inst, c)
	ofClient.goesOn(t, "Normal SecretRotated")
	install.Change(t, inst, c, func(c *v1alpha1.ApiClient) {
		c.Spec.Audiences = []string{"a" + strings.Repeat("b", 255), "c" + strings.Repeat("d", 255), "e" + strings.Repeat("f", 255), "g" + strings.Repeat("h", 255)}
	})
	ofClient.goesOn(t, "Warning AudienceNotInRealm") // whose message is longer than a note may be
	inst.Delete(t, realm)
	ofClient.goesOn(t, "Warning RealmNotFound")

	inst.StopOperator(t)
	inst.StartOperator(t, "")
	// What the second run shall not tell is told when it has come to something new.
	probe := install.ApiClient(c.Namespace, "probe", "nowhere")
	inst.Create(t, probe)
	tellingOf(t, inst, probe)
	inst.AwaitSettled(t)
	ofRealm.goesOn(t)
	ofClient.goesOn(t)
}

// telling is what Events have told of an object, in the order of time.
type telling struct {
	inst *install.Installation
	of   client.Object
	told []string // type and reason of each
}

// tellingOf waits for what is told of a new object: in the end what its status says.
func tellingOf(t *testing.T, inst *install.Installation, obj client.Object) *telling {
	t.Helper()
	so := &telling{inst: inst, of: obj}
	install.Eventually(t, "Events that tell what became of "+obj.GetName(), func() error {
		told := so.events(t)
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(install.Conditions(obj), string(v1alpha1.ConditionReady))
		if len(told) == 0 || ready == nil || told[len(told)-1].Reason != ready.Reason {
			return fmt.Errorf("Ready is %v, the Events are %v", ready, told)
		}
		so.told = inShort(told)
		return nil
	})
	return so
}

// goesOn waits until just these are told beside what was told before.
func (so *telling) goesOn(t *testing.T, more ...string) {
	t.Helper()
	want := append(slices.Clone(so.told), more...)
	var told []eventsv1.Event
	install.Eventually(t, "Events that tell of "+so.of.GetName(), func() error {
		told = so.events(t)
		if diff := gocmp.Diff(want, inShort(told)); diff != "" {
			return fmt.Errorf("-want +got:\n%s", diff)
		}
		return nil
	})
	so.told = want
	for _, e := range told[len(told)-len(more):] {
		so.check(t, e)
	}
}

// check looks at what the type and the reason of an Event don't say.
func (so *telling) check(t *testing.T, e eventsv1.Event) {
	t.Helper()
	if e.Action == "" || e.ReportingController != v1alpha1.EventController || e.Series != nil || e.Regarding.APIVersion != v1alpha1.GroupVersion.String() {
		t.Errorf("an Event of %s is %+v", so.of.GetName(), e)
	}
	if e.Action == string(v1alpha1.EventActionRotate) {
		return
	}
	if err := so.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(so.of), so.of); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(install.Conditions(so.of), string(v1alpha1.ConditionReady))
	beginning, shortened := strings.CutSuffix(e.Note, "...")
	same := e.Note == ready.Message || shortened && strings.HasPrefix(ready.Message, beginning)
	if e.Reason == ready.Reason && !same {
		t.Errorf("the Event %s says %q, and the condition %q", e.Reason, e.Note, ready.Message)
	}
}

func (so *telling) events(t *testing.T) []eventsv1.Event {
	t.Helper()
	list := &eventsv1.EventList{}
	if err := so.inst.Env.Client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	mine := slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.UID != so.of.GetUID() })
	slices.SortFunc(mine, func(a, b eventsv1.Event) int { return cmp.Compare(a.EventTime.UnixNano(), b.EventTime.UnixNano()) })
	return mine
}

func inShort(told []eventsv1.Event) []string {
	var short []string
	for _, e := range told {
		short = append(short, e.Type+" "+e.Reason)
	}
	return short
}
