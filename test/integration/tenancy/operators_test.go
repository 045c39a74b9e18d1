package tenancy_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

const stopTimeout = 30 * time.Second

// rounds is the number of times that clients compete for an ID while two operators run.
const rounds = 2

// Two operators run at the same time without leader election. They never let two objects hold one
// client ID, even while one of them stops and starts.
func TestTwoOperators(t *testing.T) {
	b := newBank(t, scenario.Running(t, env.Start(t)))
	stop := b.watchVictims(t)
	takeovers := watchHolders(t, b.inst)
	second := b.inst.StartSecondOperator(t, "")
	competing := []*tenant{newTenant(t, b.inst), newTenant(t, b.inst), newTenant(t, b.inst)}
	for _, u := range competing {
		b.grant(t, u, "contested-*")
	}
	for round := range rounds {
		if round == rounds/2 {
			b.inst.StopOperator(t)
			b.inst.StartOperator(t, "")
		}
		var creating sync.WaitGroup
		clients := make([]*v1alpha1.ApiClient, len(competing))
		for i, u := range competing {
			creating.Go(func() { clients[i] = u.apiClient("contender", bankName, fmt.Sprintf("contested-%d", round))(t) })
		}
		creating.Wait()
		// Each holder is deleted, so that the others compete again.
		for len(clients) > 0 {
			held := awaitHolder(t, b.inst, clients)
			h := holderOf(t, b.inst, clients[held])
			for i, c := range clients {
				if i != held {
					expectRejected(t, b.inst, c, v1alpha1.ReasonClientIDConflict)
				}
			}
			b.inst.Delete(t, h.client)
			clients = append(clients[:held], clients[held+1:]...)
		}
	}
	if err := second.Exited(); err != nil {
		t.Errorf("the second operator has ended: %v", err)
	}
	takeovers(t)
	stop()
	b.expectUnharmed(t)
}

// awaitHolder waits until one of the clients is Ready and returns its index.
func awaitHolder(t *testing.T, inst *install.Installation, clients []*v1alpha1.ApiClient) (index int) {
	t.Helper()
	name := scenario.RecordName(t, inst, clients[0])
	install.Eventually(t, "a client to hold the ID", func() error {
		_, body, err := holderIn(t, inst, name)
		for i, c := range clients {
			if err == nil && body.UID == c.UID {
				index = i
				return nil
			}
		}
		return fmt.Errorf("the holder has UID %q, %w", body.UID, err)
	})
	return index
}

// watchHolders watches all records. The returned function stops and reports each record whose holder
// or identity has changed while it existed.
func watchHolders(t *testing.T, inst *install.Installation) (report func(*testing.T)) {
	t.Helper()
	events, err := inst.Env.Client.Watch(t.Context(), &corev1.SecretList{}, client.InNamespace(inst.RecordsNamespace))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	holders := map[types.UID]record.Client{} // by UID of the record
	var changed []string
	running.Go(func() {
		for event := range events.ResultChan() {
			secret, ok := event.Object.(*corev1.Secret)
			if !ok || record.KindOf(secret) != record.KindClient {
				continue
			}
			now, err := record.ReadClient(secret)
			before, known := holders[secret.UID]
			if err != nil || known && (before.UID != now.UID || before.Identity != now.Identity) {
				changed = append(changed, fmt.Sprintf("%s: from %s to %s, %v", secret.Name, before.UID, now.UID, err))
			}
			holders[secret.UID] = now
		}
	})
	stop := sync.OnceFunc(func() { events.Stop(); running.Wait() })
	t.Cleanup(stop)
	return func(t *testing.T) {
		t.Helper()
		stop()
		if len(changed) > 0 || len(holders) == 0 {
			t.Errorf("records of %d holders, of which these have changed: %q", len(holders), changed)
		}
	}
}

// An operator with a stale cache runs beside another one, for example because its connection is
// interrupted. It doesn't let an attacker acquire an ID with a grant that has been removed, and
// doesn't give an ID back to a client that has lost it.
func TestStaleOperator(t *testing.T) {
	inst := install.New(t, env.Start(t), install.Settings{})
	proxy := inst.StartFaultProxy(t, install.Faults{})
	inst.StartOperator(t, inst.KubeconfigFor(t, proxy.URL))
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	b := newBank(t, inst)

	t.Run("removed grant", func(t *testing.T) {
		attacker, owner := newTenant(t, inst), newTenant(t, inst)
		b.grant(t, attacker, "stale")
		newHolder(t, inst, attacker.apiClient("known", bankName, "")) // the operator knows the grant
		thaw := proxy.FreezeWatches("realms")
		defer thaw()
		b.revoke(t, attacker)
		c := attacker.apiClient("stale", bankName, "stale")(t)
		expectRejected(t, inst, c, v1alpha1.ReasonNamespaceNotAllowed)
		thaw()
		b.grant(t, owner, "stale")
		newHolder(t, inst, owner.apiClient("stale", bankName, "stale"))
	})

	t.Run("lost client ID", func(t *testing.T) {
		attacker, owner := newTenant(t, inst), newTenant(t, inst)
		b.grant(t, attacker, "lost")
		b.grant(t, owner, "lost")
		before := newHolder(t, inst, attacker.apiClient("lost", bankName, "lost"))
		waiting := owner.apiClient("lost", bankName, "lost")(t)
		expectRejected(t, inst, waiting, v1alpha1.ReasonClientIDConflict)
		// After its first change, only the version of the record protects it from a stale write.
		install.Change(t, inst, before.client, func(c *v1alpha1.ApiClient) { c.Spec.Scopes = []string{"read"} })
		inst.AwaitReady(t, before.client, metav1.ConditionTrue, v1alpha1.ReasonReady)
		// The operator knows only the attacker's record. While it is suspended, another operator
		// gives the ID to the other tenant.
		thawSecrets, thawRealms, resume := proxy.FreezeWatches("secrets"), proxy.FreezeWatches("realms"), inst.FreezeOperator(t)
		defer thawSecrets()
		defer thawRealms()
		second := inst.StartSecondOperator(t, "")
		b.change(t, func(r *v1alpha1.Realm) {
			r.Spec.ReleasedClients = []v1alpha1.ApiClientReference{{Namespace: attacker.namespace, Name: "lost"}}
		})
		after := holderOf(t, inst, waiting)
		if err := second.Stop(stopTimeout); err != nil {
			t.Error(err)
		}
		writes := proxy.Writes()
		resume()
		install.Change(t, inst, before.client, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
		install.Eventually(t, "the stale operator to try to write the record", func() error {
			if proxy.Writes() < writes+2 {
				return fmt.Errorf("it has made %d writes", proxy.Writes()-writes)
			}
			return nil
		})
		after.expectHeld(t)
		thawSecrets()
		thawRealms()
		inst.AwaitReady(t, before.client, metav1.ConditionFalse, v1alpha1.ReasonClientIDReleased)
		expectSuperseded(t, inst, before, after)
		after.expectUnharmed(t)
	})
	b.expectUnharmed(t)
}
