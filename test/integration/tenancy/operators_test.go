package tenancy_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

const stopTimeout = 30 * time.Second

// An operator with a stale cache runs beside another one, for example because its connection is
// interrupted. It doesn't let an attacker acquire an ID or a subject with a grant that has been removed, and
// doesn't give a subject back to a client that has lost it.
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
		expectRejected(t, inst, c, v1beta1.ReasonNamespaceNotAllowed)
		workload := attacker.apiClient("workload", bankName, "", byWorkload("repo:bank/stale"))(t)
		expectRejected(t, inst, workload, v1beta1.ReasonNamespaceNotAllowed)
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
		b.change(t, func(r *v1beta1.Realm) { r.Spec.Scopes = append(r.Spec.Scopes, "stale") })
		install.Eventually(t, "the stale operator to try to write", func() error {
			if proxy.Writes() < writes+2 {
				return fmt.Errorf("it has made %d writes", proxy.Writes()-writes)
			}
			return nil
		})
		expectSubject(t, inst, bankName, "repo:bank/lost", after)
		thawSecrets()
		thawClients()
		b.inst.AwaitReady(t, before, metav1.ConditionTrue, v1beta1.ReasonReady)
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
		b.ready(t, attacker, "thief", byWorkload("repo:bank/after"))
		install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{"read"} })
		awaitSubject(t, inst, bankName, "repo:bank/before", nil)
		expectSubject(t, inst, bankName, "repo:bank/after", c)
		if err := second.Stop(stopTimeout); err != nil {
			t.Error(err)
		}
		thaw()
		awaitSubject(t, inst, bankName, "repo:bank/before", nil)
		expectSubject(t, inst, bankName, "repo:bank/after", c)
		b.awaitClientOf(t, "", b.workload(t, "repo:bank/after", nil), c)
	})
	b.expectUnharmed(t)
}
