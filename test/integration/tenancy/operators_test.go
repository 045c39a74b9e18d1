package tenancy_test

import (
	"fmt"
	"slices"
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
			// A new name, because the Secrets of deleted clients block it until they are collected as garbage.
			creating.Go(func() {
				clients[i] = u.apiClient(fmt.Sprintf("contender-%d", round), bankName, fmt.Sprintf("contested-%d", round))(t)
			})
		}
		creating.Wait()
		// Each holder is deleted, so that the others compete again.
		for len(clients) > 0 {
			held := awaitHolder(t, b.inst, clients)
			awaitIssued(t, b.inst, clients[held])
			for i, c := range clients {
				if i != held {
					expectRejected(t, b.inst, c, v1alpha1.ReasonClientIDConflict)
				}
			}
			b.inst.Delete(t, clients[held])
			clients = append(clients[:held], clients[held+1:]...)
		}
		contestSubject(t, b, competing, fmt.Sprintf("repo:contested/%d", round))
	}
	if err := second.Exited(); err != nil {
		t.Errorf("the second operator has ended: %v", err)
	}
	takeovers(t)
	stop()
	b.expectUnharmed(t)
}

// contestSubject makes tenants compete for a subject. All of their clients are Ready, but only one
// holds the subject, until it is deleted.
func contestSubject(t *testing.T, b *bank, competing []*tenant, subject string) {
	t.Helper()
	var creating sync.WaitGroup
	clients := make([]*v1alpha1.ApiClient, len(competing))
	for i, u := range competing {
		creating.Go(func() { clients[i] = u.apiClient("workload", bankName, "", byWorkload(subject))(t) })
	}
	creating.Wait()
	token := b.workload(t, subject, nil)
	for len(clients) > 0 {
		for _, c := range clients {
			b.inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
		}
		body, err := subjectHolder(t, b.inst, bankName, ciURL, subject)
		if err != nil || body == nil {
			t.Fatalf("all clients are Ready, but the holder is %+v: %v", body, err)
		}
		held := slices.IndexFunc(clients, func(c *v1alpha1.ApiClient) bool { return c.UID == body.UID })
		if held < 0 {
			t.Fatalf("the holder is %+v, which does not compete", body)
		}
		b.awaitClientOf(t, "", token, clients[held])
		for _, c := range clients {
			b.awaitClientOf(t, c.EffectiveClientID(), token, c)
		}
		b.inst.Delete(t, clients[held])
		clients = slices.Delete(clients, held, held+1)
		if len(clients) > 0 {
			install.Eventually(t, "another client to hold the subject", func() error {
				now, err := subjectHolder(t, b.inst, bankName, ciURL, subject)
				if err != nil || now == nil || now.UID == body.UID {
					return fmt.Errorf("the holder is %+v, %w", now, err)
				}
				return nil
			})
		}
	}
	awaitSubject(t, b.inst, bankName, subject, nil)
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

// awaitIssued waits until every token server issues tokens of the client for its credentials Secret.
// Ready is not enough: two operators can both generate the client's first secret, and the one that is
// delivered first doesn't work until the other operator delivers its own.
func awaitIssued(t *testing.T, inst *install.Installation, c *v1alpha1.ApiClient) {
	t.Helper()
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	for _, s := range inst.Servers() {
		install.Eventually(t, s.Name+" to issue a token to the holder", func() error {
			response, err := install.RequestToken(t, s, s.Client(t), inst.CredentialsSecret(t, c))
			if err != nil || response.AccessToken == "" {
				return fmt.Errorf("no token: %+v, %w", response, err)
			}
			got, err := claimsOf(response.AccessToken)
			if err != nil || got.Identity != string(c.UID) || got.ClientID != c.EffectiveClientID() {
				return fmt.Errorf("the token has the claims %+v, %w", got, err)
			}
			return nil
		})
	}
}

// holding is who holds a client ID or subject.
type holding struct{ client, identity types.UID }

// holdingIn returns who holds what a record is about.
func holdingIn(secret *corev1.Secret) (holding, error) {
	if record.KindOf(secret) == record.KindSubject {
		body, err := record.ReadSubject(secret)
		return holding{body.UID, body.UID}, err
	}
	body, err := record.ReadClient(secret)
	return holding{body.UID, body.Identity}, err
}

// watchHolders watches all records of clients and subjects. The returned function stops and reports each record whose holder
// or identity has changed while it existed.
func watchHolders(t *testing.T, inst *install.Installation) (report func(*testing.T)) {
	t.Helper()
	events, err := inst.Env.Client.Watch(t.Context(), &corev1.SecretList{}, client.InNamespace(inst.RecordsNamespace))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	holders := map[types.UID]holding{} // by UID of the record
	var changed []string
	running.Go(func() {
		for event := range events.ResultChan() {
			secret, ok := event.Object.(*corev1.Secret)
			if !ok || record.KindOf(secret) == record.KindRealm || record.KindOf(secret) == "" {
				continue
			}
			now, err := holdingIn(secret)
			before, known := holders[secret.UID]
			if err != nil || known && before != now {
				changed = append(changed, fmt.Sprintf("%s: from %v to %v, %v", secret.Name, before, now, err))
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
		workload := attacker.apiClient("workload", bankName, "", byWorkload("repo:bank/stale"))(t)
		expectRejected(t, inst, workload, v1alpha1.ReasonNamespaceNotAllowed)
		awaitSubject(t, inst, bankName, "repo:bank/stale", nil)
		thaw()
		b.grant(t, owner, "stale")
		newHolder(t, inst, owner.apiClient("stale", bankName, "stale"))
		awaitSubject(t, inst, bankName, "repo:bank/stale", b.ready(t, owner, "workload", byWorkload("repo:bank/stale")))
	})

	t.Run("lost subject", func(t *testing.T) {
		attacker, owner := newTenant(t, inst), newTenant(t, inst)
		b.grant(t, attacker)
		b.grant(t, owner)
		before := b.ready(t, attacker, "lost", byWorkload("repo:bank/lost"))
		after := b.ready(t, owner, "heir", byWorkload("repo:bank/lost"))
		expectSubject(t, inst, bankName, "repo:bank/lost", before)
		// The operator knows only that the attacker lists and holds the subject. While it is suspended,
		// another operator gives the subject to the other tenant.
		thawSecrets, thawClients, resume := proxy.FreezeWatches("secrets"), proxy.FreezeWatches("apiclients"), inst.FreezeOperator(t)
		defer thawSecrets()
		defer thawClients()
		second := inst.StartSecondOperator(t, "")
		install.Change(t, inst, before, byWorkload("repo:bank/other"))
		awaitSubject(t, inst, bankName, "repo:bank/lost", after)
		if err := second.Stop(stopTimeout); err != nil {
			t.Error(err)
		}
		writes := proxy.Writes()
		resume()
		b.change(t, func(r *v1alpha1.Realm) { r.Spec.Scopes = append(r.Spec.Scopes, "stale") })
		install.Eventually(t, "the stale operator to try to write", func() error {
			if proxy.Writes() < writes+2 {
				return fmt.Errorf("it has made %d writes", proxy.Writes()-writes)
			}
			return nil
		})
		expectSubject(t, inst, bankName, "repo:bank/lost", after)
		thawSecrets()
		thawClients()
		b.inst.AwaitReady(t, before, metav1.ConditionTrue, v1alpha1.ReasonReady)
		awaitSubject(t, inst, bankName, "repo:bank/other", before)
		expectSubject(t, inst, bankName, "repo:bank/lost", after)
		b.awaitClientOf(t, "", b.workload(t, "repo:bank/lost", nil), after)
	})

	t.Run("subject that is listed again", func(t *testing.T) {
		attacker, owner := newTenant(t, inst), newTenant(t, inst)
		b.grant(t, attacker)
		b.grant(t, owner)
		c := b.ready(t, owner, "again", byWorkload("repo:bank/before"))
		awaitSubject(t, inst, bankName, "repo:bank/before", c)
		// The operator doesn't see that the client lists another subject, which a second operator gives
		// to it. It must not take that subject for one that the client no longer lists: the record says that
		// there is a newer version of the client.
		thaw := proxy.FreezeWatches("apiclients")
		defer thaw()
		install.Change(t, inst, c, byWorkload("repo:bank/after"))
		second := inst.StartSecondOperator(t, "")
		awaitSubject(t, inst, bankName, "repo:bank/after", c)
		takeovers := watchHolders(t, inst)
		b.ready(t, attacker, "thief", byWorkload("repo:bank/after"))
		install.Change(t, inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Scopes = []string{"read"} })
		awaitSubject(t, inst, bankName, "repo:bank/before", nil)
		expectSubject(t, inst, bankName, "repo:bank/after", c)
		if err := second.Stop(stopTimeout); err != nil {
			t.Error(err)
		}
		thaw()
		awaitSubject(t, inst, bankName, "repo:bank/before", nil)
		expectSubject(t, inst, bankName, "repo:bank/after", c)
		takeovers(t)
		b.awaitClientOf(t, "", b.workload(t, "repo:bank/after", nil), c)
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
