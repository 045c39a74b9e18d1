package restore_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

const stopTimeout = 30 * time.Second

// faults makes the operator fail while armed, and counts its writes to each Secret.
type faults struct {
	inst  *install.Installation
	proxy *install.FaultProxy
	armed atomic.Bool
	// spared is the name of a Secret whose writes never fail.
	spared string

	mu       sync.Mutex
	writes   map[string]int // by URL path, since armed
	attempts map[string]int // by URL path
}

func (f *faults) of(w install.Write) install.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attempts[w.Path]++
	if !f.armed.Load() || !strings.Contains(w.Path, "/secrets") || strings.HasSuffix(w.Path, f.spared) {
		return install.NoFault
	}
	f.writes[w.Path]++
	limit := 1 // A lost secret causes another write, so the faults must end.
	switch {
	case strings.Contains(w.Path, "/restore-"):
		limit = 2 // It is marked as adopted, and deleted.
	case strings.HasSuffix(w.Path, "-records/secrets"):
		limit = 3 // They create the records of a realm and two clients.
	}
	if f.writes[w.Path] > limit {
		return install.NoFault
	}
	return install.ResponseLost
}

func (f *faults) attemptsAt(name string) (count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for path, n := range f.attempts {
		if strings.HasSuffix(path, "/"+name) {
			count += n
		}
	}
	return count
}

// startWithFaults starts an operator whose writes can fail, and two token servers.
func startWithFaults(t *testing.T) *faults {
	t.Helper()
	inst := install.New(t, env.Start(t), install.Settings{})
	f := &faults{inst: inst, writes: map[string]int{}, attempts: map[string]int{}}
	kubeconfig := ""
	f.proxy = inst.StartFaultProxy(t, install.Faults{Of: f.of, Then: func() { inst.KillAndRestartOperatorWith(t, kubeconfig) }})
	kubeconfig = inst.KubeconfigFor(t, f.proxy.URL)
	inst.StartOperator(t, kubeconfig)
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	return f
}

// The operator is killed after each write of a Secret, which is also before the next one.
func testKilledAtEveryWrite(t *testing.T, f *faults) {
	b := backupOf(t, f.inst, "killed")
	second := b.sibling(t, "orders")
	second.deleteClient(t)
	b.deleteClient(t)
	f.inst.Delete(t, b.realm)
	b.awaitGone(t)
	second.awaitGone(t)

	f.spared = second.clientRecord.SecretName() // as that of the other client
	f.armed.Store(true)
	defer f.armed.Store(false)
	second.restoreCredentials(t, "")
	b.restoreRecords(t, b.realmRecord, b.clientRecord, second.clientRecord)
	b.recreate(t)
	second.realm, second.client = b.realm, second.newClient()
	f.inst.Create(t, second.client)
	for _, restored := range []*backup{b, second} {
		restored.awaitWhole(t)
		f.inst.AwaitTokens(t, f.inst.CredentialsSecret(t, restored.client), true)
	}
	if current := f.inst.CredentialsSecret(t, second.client); scenario.ClientSecret(current) != scenario.ClientSecret(second.credentials) {
		t.Error("the client with a credentials Secret has a new secret")
	}
	if left := b.restores(t); len(left) != 1 || left[0] != "client" {
		t.Errorf("restore records %v are left, want that of the client", left)
	}
	t.Logf("These writes failed: %q", f.proxy.Failed())
}

// sibling creates another client in the realm and takes a backup of it.
func (b *backup) sibling(t *testing.T, name string) *backup {
	t.Helper()
	c := install.ApiClient(b.client.Namespace, name, b.realm.Name)
	b.inst.Create(t, c)
	scenario.AwaitUsable(t, b.inst, c)
	return newBackup(t, b.inst, b.realm, c, b.inst.CredentialsSecret(t, c))
}

func testTwoOperators(t *testing.T, f *faults) {
	var all []*backup
	for i := range 3 {
		all = append(all, lost(t, f.inst, fmt.Sprintf("twice-%d", i)))
	}
	second := f.inst.StartSecondOperator(t, "")
	var restoring sync.WaitGroup
	for _, b := range all {
		restoring.Go(func() {
			b.restoreRecords(t, b.clientRecord, b.realmRecord)
			b.recreate(t)
		})
	}
	restoring.Wait()
	for _, b := range all {
		b.awaitWhole(t)
		f.inst.AwaitTokens(t, f.inst.CredentialsSecret(t, b.client), true)
		if body := b.clientBody(t); body.Identity != b.clientRecord.Client.Identity {
			t.Errorf("the identity is %q, want %q", body.Identity, b.clientRecord.Client.Identity)
		}
	}
	if err := second.Stop(stopTimeout); err != nil {
		t.Error(err)
	}
}

// lostHashed is like lost with a client whose spec lists a hash. It has no credentials Secret, which a
// stale operator would create again for a deleted client.
func lostHashed(t *testing.T, inst *install.Installation, name string) *backup {
	t.Helper()
	verifier, value := newVerifier(t)
	realm, c := install.Realm(name), install.ApiClient(inst.Env.Namespace(t), "billing", name, func(c *v1alpha1.ApiClient) {
		c.Spec.Secret = &v1alpha1.ClientSecretSource{Hashed: []v1alpha1.HashedSecret{{ID: "listed", Hash: verifier.String()}}}
	})
	inst.Create(t, realm, c)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	b := newBackup(t, inst, realm, c, scenario.Credentials(c, value))
	inst.Delete(t, c)
	inst.Delete(t, realm)
	b.awaitGone(t)
	return b
}

// lostProvided is like lost with a client whose secret is provided. The provided Secret is kept.
func lostProvided(t *testing.T, inst *install.Installation, name string) *backup {
	t.Helper()
	_, value := newVerifier(t)
	namespace := inst.Env.Namespace(t)
	provided := scenario.ProvidedSecret(namespace, value)
	provided.Labels = map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretProvided}
	realm, c := install.Realm(name), install.ApiClient(namespace, "billing", name, scenario.UseProvidedSecret)
	inst.Create(t, provided, realm, c)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	b := newBackup(t, inst, realm, c, scenario.Credentials(c, value))
	inst.Delete(t, c)
	inst.Delete(t, realm)
	b.awaitGone(t)
	return b
}

// The operator doesn't see that a client was recreated. It must not give the restore record to the
// deleted client, because the new one would then not get it.
func testStaleClient(t *testing.T, f *faults) {
	b := lostHashed(t, f.inst, "staleclient")
	b.recreate(t)
	f.inst.AwaitReady(t, b.client, metav1.ConditionTrue, v1alpha1.ReasonReady)
	thaw := f.proxy.FreezeWatches("apiclients")
	defer thaw()
	f.inst.Delete(t, b.client)
	b.client = b.newClient()
	f.inst.Create(t, b.client)
	b.restoreRecords(t, b.clientRecord, b.realmRecord)
	b.awaitRestored(t, b.realm, metav1.ConditionTrue, v1alpha1.ReasonRestoredFromBackup) // the operator has acted
	thaw()
	b.awaitWhole(t)
}

// The operator doesn't see that a client has adopted a restore record, and that this client was
// recreated since. The new client must not get it.
func testStaleRestoreRecord(t *testing.T, f *faults) {
	marker := lost(t, f.inst, "marker")
	marker.recreate(t)
	f.inst.AwaitReady(t, marker.client, metav1.ConditionTrue, v1alpha1.ReasonReady)
	b := lostProvided(t, f.inst, "stalerestore")
	// With a secret other than the provided one, the restore record stays.
	another, _ := newVerifier(t)
	b.clientRecord.Client.Secrets = append(b.clientRecord.Client.Secrets, record.ClientSecret{ID: another.ID(), CreatedAt: time.Now(), Hash: another.String()})
	b.restoreRecords(t, b.realmRecord, b.clientRecord)
	marker.restoreRecords(t, marker.clientRecord) // The operator sees it after the others.
	marker.awaitRestored(t, marker.client, metav1.ConditionTrue, v1alpha1.ReasonRestoredFromBackup)

	thaw := f.proxy.FreezeWatches("secrets")
	defer thaw()
	b.recreate(t)
	install.Eventually(t, "the client to adopt its restore record", func() error {
		if record.Adopter(b.secret(t, b.clientRecord.SecretName())) == "" {
			return fmt.Errorf("the restore record is not adopted")
		}
		return nil
	})
	f.inst.Delete(t, b.client)
	b.client = b.newClient()
	f.inst.Create(t, b.client)
	before := f.attemptsAt(b.clientRecord.SecretName()) // including those for the deleted client
	install.Eventually(t, "the operator to try to adopt the restore record again", func() error {
		if f.attemptsAt(b.clientRecord.SecretName()) == before {
			return fmt.Errorf("it has not tried")
		}
		return nil
	})
	thaw()
	b.inst.AwaitReady(t, b.client, metav1.ConditionTrue, v1alpha1.ReasonReady)
	b.awaitComplete(t)
	if body := b.clientBody(t); body.Identity != b.client.UID || body.Restored != nil {
		t.Errorf("the identity is %q, restored from %+v, want the UID %q", body.Identity, body.Restored, b.client.UID)
	}
}
