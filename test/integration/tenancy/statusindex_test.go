package tenancy_test

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/statusindex"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
	"github.com/realmkeeper/realmkeeper/test/framework/statuslist"
)

// A tenant can retire only a limited number of indexes of the status list that it shares with other tenants, and
// what it does beyond the limit concerns only itself.
func TestStatusIndexesOfTenants(t *testing.T) {
	inst := scenario.Running(t, env.Start(t))
	realm := install.Realm("listed", func(r *v1beta1.Realm) { r.Spec.StatusList.Enabled = true })
	inst.Create(t, realm)
	victim := newListedTenant(t, inst, realm.Name)
	t.Run("tokens revoked often", func(t *testing.T) { testTokensRevokedOften(t, inst, victim, realm.Name) })
	t.Run("clients created and deleted", func(t *testing.T) { testClientsCreatedAndDeleted(t, inst, victim, realm.Name) })
}

// listedTenant is a tenant with two clients whose tokens refer to a status list.
type listedTenant struct {
	*tenant

	clients []*v1beta1.ApiClient
}

func newListedTenant(t *testing.T, inst *install.Installation, realm string) *listedTenant {
	t.Helper()
	l := &listedTenant{tenant: newTenant(t, inst)}
	for _, name := range []string{"first", "second"} {
		l.clients = append(l.clients, l.apiClient(name, realm, "")(t))
	}
	for _, c := range l.clients {
		scenario.AwaitUsable(t, inst, c)
	}
	return l
}

// revokeTokens makes a client need another index.
func (l *listedTenant) revokeTokens(t *testing.T, c *v1beta1.ApiClient, at time.Time) {
	t.Helper()
	install.Change(t, l.inst, c, func(c *v1beta1.ApiClient) { c.Spec.TokensValidAfterTime = &metav1.Time{Time: at} })
}

// expectUnharmed checks that a client gets valid tokens, and that its suspension still ends them.
func (l *listedTenant) expectUnharmed(t *testing.T, c *v1beta1.ApiClient) {
	t.Helper()
	scenario.AwaitUsable(t, l.inst, c)
	credentials := l.inst.CredentialsSecret(t, c)
	reference := statuslist.Of(t, l.inst.AccessToken(t, credentials))
	statuslist.Await(t, l.inst, credentials, reference, statuslist.Valid)
	l.suspend(t, c, credentials, reference)
	statuslist.Await(t, l.inst, credentials, reference, statuslist.Valid)
	scenario.AwaitUsable(t, l.inst, c)
}

// suspend checks that a suspension takes effect, and reverts it.
func (l *listedTenant) suspend(t *testing.T, c *v1beta1.ApiClient, credentials *corev1.Secret, reference statuslist.Reference) {
	t.Helper()
	install.Change(t, l.inst, c, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
	statuslist.Await(t, l.inst, credentials, reference, statuslist.Invalid)
	l.inst.AwaitTokens(t, credentials, false)
	install.Change(t, l.inst, c, func(c *v1beta1.ApiClient) { c.Spec.Suspend = false })
}

// indexes returns how many indexes the clients of the tenant, including deleted ones, hold.
func (l *listedTenant) indexes(t *testing.T) (all, retired int) {
	t.Helper()
	secrets := &corev1.SecretList{}
	if err := l.inst.Env.Client.List(t.Context(), secrets, client.InNamespace(l.inst.RecordsNamespace), client.MatchingLabels{v1beta1.RecordLabel: v1beta1.RecordIndex}); err != nil {
		t.Fatal(err)
	}
	for i := range secrets.Items {
		body, err := record.ReadIndex(&secrets.Items[i])
		if err != nil {
			t.Fatal(err)
		}
		if body.Namespace == l.namespace {
			all++
			if !body.RetiredAt.IsZero() {
				retired++
			}
		}
	}
	return all, retired
}

// expectWaiting waits until a client gets no index, with the reason and the time in its status, and no token.
func (l *listedTenant) expectWaiting(t *testing.T, c *v1beta1.ApiClient, credentials *corev1.Secret, words ...string) {
	t.Helper()
	l.inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonStatusIndexUnavailable)
	scenario.ExpectMessage(t, c, v1beta1.ConditionReady, words...)
	message := scenario.ConditionMessage(t, c, v1beta1.ConditionReady)
	until := regexp.MustCompile(`until (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)`).FindStringSubmatch(message)
	if until == nil {
		t.Fatalf("the message does not say until when the client waits: %s", message)
	}
	if at, err := time.Parse(time.RFC3339, until[1]); err != nil || !at.After(time.Now()) {
		t.Errorf("the client waits until %s: %v", until[1], err)
	}
	if credentials != nil {
		l.inst.AwaitTokens(t, credentials, false)
	}
}

// A tenant changes tokensValidAfterTime again and again. Its client then waits for an index, without tokens. Its
// other client and other tenants aren't affected.
func testTokensRevokedOften(t *testing.T, inst *install.Installation, victim *listedTenant, realm string) {
	l := newListedTenant(t, inst, realm)
	c := l.clients[0]
	credentials := inst.CredentialsSecret(t, c)
	first := statuslist.Of(t, inst.AccessToken(t, credentials))
	start := time.Now().Add(-time.Hour)
	for n := range statusindex.MaxRetired + 3 {
		l.revokeTokens(t, c, start.Add(time.Duration(n)*time.Second))
		inst.AwaitSettled(t)
	}
	l.expectWaiting(t, c, credentials, "tokensValidAfterTime", fmt.Sprintf("%d earlier indexes", statusindex.MaxRetired), "set spec.suspend")
	if all, retired := l.indexes(t); all != statusindex.MaxRetired+2 || retired != statusindex.MaxRetired {
		t.Errorf("the tenant holds %d indexes, %d of them retired, want %d and %d", all, retired, statusindex.MaxRetired+2, statusindex.MaxRetired)
	}
	statuslist.Await(t, inst, credentials, first, statuslist.Invalid)
	l.expectUnharmed(t, l.clients[1])
	victim.expectUnharmed(t, victim.clients[0])
	victim.revokeTokens(t, victim.clients[1], start)
	victim.expectUnharmed(t, victim.clients[1])
}

// A tenant creates and deletes clients again and again. From some time on, new clients of its namespace wait for
// an index. Its earlier clients and other tenants aren't affected.
func testClientsCreatedAndDeleted(t *testing.T, inst *install.Installation, victim *listedTenant, realm string) {
	l := newListedTenant(t, inst, realm)
	limit := func(clients int) int { return statusindex.PerNamespace + 2*clients }
	for n := range limit(len(l.clients)+1) + 3 {
		c := l.apiClient(fmt.Sprintf("deleted-%d", n), realm, "")(t)
		inst.AwaitSettled(t)
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			t.Fatal(err)
		}
		waiting := slices.ContainsFunc(c.Status.Conditions, func(condition metav1.Condition) bool {
			return condition.Reason == string(v1beta1.ReasonStatusIndexUnavailable)
		})
		if want := n >= limit(len(l.clients)+1); waiting != want {
			t.Fatalf("after %d deleted clients, a new one waits for an index: %t, want %t", n, waiting, want)
		}
		if n == limit(len(l.clients)+1) {
			l.expectWaiting(t, c, nil, l.namespace, "deleted", "16 more than twice the number")
		}
		inst.Delete(t, c)
		install.Eventually(t, "the index of a deleted client to be retired", func() error {
			if all, retired := l.indexes(t); all-retired != len(l.clients) {
				return fmt.Errorf("%d of %d are retired", retired, all)
			}
			return nil
		})
	}
	if _, retired := l.indexes(t); retired != limit(len(l.clients)+1) {
		t.Errorf("%d indexes are retired, want %d", retired, limit(len(l.clients)+1))
	}
	l.expectUnharmed(t, l.clients[0])
	victim.expectUnharmed(t, victim.clients[0])
	victim.expectUnharmed(t, newListedTenant(t, inst, realm).clients[0])

	c := l.clients[1]
	credentials := inst.CredentialsSecret(t, c)
	revoked := statuslist.Of(t, inst.AccessToken(t, credentials))
	l.revokeTokens(t, c, time.Now().Add(-time.Hour))
	l.expectWaiting(t, c, credentials, l.namespace)
	statuslist.Await(t, inst, credentials, revoked, statuslist.Invalid)
}
