package simulation

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/memory"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

const (
	realmName = "acme"
	team      = "team" // the namespace of all ApiClients

	// tokenLifetime is short, so that runs in which keys are rotated and expire are, too.
	tokenLifetime = time.Minute
	// shortLifetime and longLifetime are what users change it to. An index to which tokens with longLifetime refer
	// stays retired for longer than retirement.
	shortLifetime, longLifetime = 10 * time.Second, 20 * time.Minute
)

// state is a state of the API from which a search starts.
type state struct {
	now     time.Time
	uids    int
	age     int // the number of states before it, which have used up some random numbers
	objects []*unstructured.Unstructured
}

// everythingHappens is the scope of a run without faults.
var everythingHappens = scope{lags: func(*stream) bool { return false }, held: func(*request) bool { return false }}

// empty is the state without Realms and ApiClients.
func empty(t *testing.T) state {
	return reach(t, state{}, func(w *world) { w.create(object("v1", "Namespace", "", team, nil)) })
}

// realmOnly is the state in which there is a Realm that is Ready, and no ApiClient.
func realmOnly(t *testing.T) state {
	return reach(t, state{}, func(w *world) {
		w.create(object("v1", "Namespace", "", team, nil))
		w.createRealm()
	})
}

func (w *world) createRealm() {
	w.create(object("auth.realmkeeper.dev/v1beta1", "Realm", "", realmName, map[string]any{
		"statusList": map[string]any{"enabled": true},
		"scopes":     []any{"read", "write"}, "tokenLifetime": tokenLifetime.String(), "signing": map[string]any{"publishAhead": tokenLifetime.String()},
		"grants": []any{map[string]any{"name": "all", "namespaces": map[string]any{"from": "All"}, "scopes": []any{"*"}, "audiences": []any{"*"}, "issuers": []any{"*"}, "clientIDs": []any{"*"}}},
	}))
}

// settled is the state in which a client has a secret that all servers accept.
func settled(t *testing.T) state {
	return reach(t, realmOnly(t), func(w *world) { w.createClient("billing") })
}

// withoutSecret is the state in which a client authenticates with a key, and its secret is no longer valid.
func withoutSecret(t *testing.T) state {
	return reach(t, settled(t), func(w *world) {
		w.takeSecret("billing")
		w.settle()
		w.sleep(overlap)
	})
}

// withoutLists is the state in which a client has tokens without an index.
func withoutLists(t *testing.T) state {
	return reach(t, empty(t), func(w *world) {
		w.createRealm()
		w.setLists(false)
		w.createClient("billing")
	})
}

// overlapping is the state in which a client has a new secret, and the old one is still accepted.
func overlapping(t *testing.T) state {
	return reach(t, settled(t), func(w *world) { w.rotateNow("billing") })
}

// suspended is the state in which a client is suspended.
func suspended(t *testing.T) state {
	return reach(t, settled(t), func(w *world) { w.edit("billing", true, "spec", "suspend") })
}

// revokedLater is the state in which the tokens of a client are revoked up to a time in the future.
func revokedLater(t *testing.T) state {
	return reach(t, settled(t), func(w *world) { w.revokeTokens("billing", time.Now().Add(20*time.Second)) })
}

// longLived is the state in which a client has tokens with a long lifetime.
func longLived(t *testing.T) state {
	return reach(t, settled(t), func(w *world) { w.setLifetime(longLifetime) })
}

// restoredState is the state after a restore from a backup: the record also accepts a secret of the backup.
func restoredState(t *testing.T) state {
	return reach(t, settled(t), func(w *world) {
		w.rewriteRecords(record.KindClient, func(secret *corev1.Secret) *corev1ac.SecretApplyConfiguration {
			body, err := record.ReadClient(secret)
			must(err)
			verifier, err := clientsecret.Hash("a secret of the backup", w.random)
			must(err)
			body.Restored = &record.Restored{
				BackupTime: time.Now().UTC(), At: time.Now().UTC(),
				Secrets: []record.ClientSecret{{ID: verifier.ID(), CreatedAt: time.Now().UTC(), Hash: verifier.String(), ExpiresAt: time.Now().UTC().Add(24 * time.Hour)}},
			}
			applied, err := recordsecret.ForClient(recordsNamespace, body)
			must(err)
			return applied
		})
	})
}

// reach returns the state that follows from a change if nothing fails.
func reach(t *testing.T, start state, change func(*world)) (after state) {
	t.Helper()
	run(t, start, everythingHappens, func(w *world) {
		change(w)
		w.settle()
		w.sleep(10 * time.Second)
		w.settle()
		if w.violation != nil {
			t.Fatalf("reaching a start state: %v\n%s", w.violation, w.text())
		}
		after = state{now: time.Now(), uids: w.uids, age: start.age + 1, objects: w.api.store.Objects()}
	})
	return after
}

// run runs two operators, of which the first leads, and two token servers.
func run(t *testing.T, start state, s scope, do func(*world)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { inWorld(start, s, "", do) })
}

// running is locked during a run.
var running sync.Mutex

// inWorld is run in a bubble that exists.
func inWorld(start state, s scope, saved string, do func(*world)) {
	if !running.TryLock() {
		panic("two runs at the same time, or one that never ended: both use up the random numbers of seedJitter, so that neither can be repeated")
	}
	defer running.Unlock()
	seedJitter()
	w := newWorld(scheme(), start, scope{lags: nothing, held: noRequest, clocks: s.clocks})
	w.saved = saved
	defer w.close()
	w.startServer("server 1")
	w.startServer("server 2")
	w.startOperator("operator 1").lead()
	w.startOperator("operator 2")
	w.settle()
	w.trace, w.scope = nil, s
	do(w)
}

func object(version, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	if spec != nil {
		o.Object["spec"] = spec
	}
	return o
}

// create creates an object for a user.
func (w *world) create(o *unstructured.Unstructured) {
	_, err := w.api.store.Create(context.Background(), o, memory.WriteOptions{Manager: "user"})
	must(err)
	w.note("  a user creates %s %s", o.GetKind(), o.GetName())
}

func (w *world) createClient(name string) { w.createClientWithID(name, "") }

func (w *world) createClientWithID(name, clientID string) {
	w.create(object("auth.realmkeeper.dev/v1beta1", "ApiClient", team, name, map[string]any{
		"clientID": clientID,
		"realmRef": map[string]any{"name": realmName}, "scopes": []any{"read", "write"},
		"secret": generatedSecret(),
	}))
}

// takeSecret gives a client a key instead of a secret.
func (w *world) takeSecret(name string) {
	w.edit(name, []any{map[string]any{"keyID": "a", "jwk": `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`}}, "spec", "publicKeys")
	w.edit(name, nil, "spec", "secret")
}

// giveSecret gives a client a generated secret.
func (w *world) giveSecret(name string) {
	w.edit(name, generatedSecret(), "spec", "secret")
}

func generatedSecret() map[string]any {
	return map[string]any{"generated": map[string]any{"rotation": map[string]any{"overlap": overlap.String()}}}
}

func (w *world) deleteClient(name string) {
	_, err := w.api.store.Delete(clientResource, types.NamespacedName{Namespace: team, Name: name}, nil)
	must(err)
}

// edit changes the spec of an ApiClient for a user.
func (w *world) edit(name string, value any, path ...string) {
	w.change(clientResource, types.NamespacedName{Namespace: team, Name: name}, value, path...)
}

// change changes a field of an object for a user.
func (w *world) change(gvr schema.GroupVersionResource, key types.NamespacedName, value any, path ...string) {
	live, err := w.api.store.Get(gvr, key)
	must(err)
	changed := live.DeepCopy()
	if value == nil {
		unstructured.RemoveNestedField(changed.Object, path...)
	} else {
		must(unstructured.SetNestedField(changed.Object, value, path...))
	}
	after, err := w.api.store.Update(context.Background(), changed, memory.WriteOptions{Manager: "user"})
	must(err)
	w.note("  a user sets %s of %s to %v: generation %d", path[len(path)-1], key.Name, value, after.GetGeneration())
}

// rotateNow requests a new client secret.
func (w *world) rotateNow(name string) {
	w.sleep(time.Second) // the secret must be older, and times have a precision of a second
	w.edit(name, time.Now().UTC().Format(time.RFC3339), "spec", "secret", "generated", "rotation", "rotationRequestTime")
}

// rotateKey requests a new signing key.
func (w *world) rotateKey() {
	w.sleep(time.Second)
	w.change(realmResource, types.NamespacedName{Name: realmName}, time.Now().UTC().Format(time.RFC3339), "spec", "signing", "rotationRequestTime")
}

// byUser makes a change of a Secret as a user, which revokes what the Secret contains.
func (w *world) byUser(change func() error) {
	w.history.observe(w)
	w.history.edits = true
	err := change()
	w.history.observe(w)
	w.history.edits = false
	if err != nil {
		w.note("  it fails: %v", err)
	}
}

// deleteSecret deletes the credentials Secret for a user.
func (w *world) deleteSecret(name string) {
	w.byUser(func() error {
		_, err := w.api.store.Delete(secretResource, types.NamespacedName{Namespace: team, Name: name}, nil)
		return err
	})
}

// overwriteSecret writes another value to the credentials Secret for a user.
func (w *world) overwriteSecret(name string) {
	w.byUser(func() error {
		patch := []byte(`{"stringData":{"client_secret":"chosen by a user"}}`)
		_, err := w.api.store.Patch(context.Background(), secretResource, types.NamespacedName{Namespace: team, Name: name}, types.MergePatchType, patch, memory.WriteOptions{Manager: "user"})
		return err
	})
}

// loseRecord deletes the record of a client.
func (w *world) loseRecord(name string) {
	c := w.history.client(types.NamespacedName{Namespace: team, Name: name}).record
	if c == nil {
		return
	}
	w.byUser(func() error {
		key := types.NamespacedName{Namespace: recordsNamespace, Name: record.ClientRecordName(c.RealmUID, c.ClientID)}
		_, err := w.api.store.Delete(secretResource, key, nil)
		return err
	})
}

// text returns the trace.
func (w *world) text() string {
	return strings.Join(w.trace, "\n")
}

// readyReason returns the reason of the client's condition Ready.
func (w *world) readyReason(name string) string {
	o, err := w.api.store.Get(clientResource, types.NamespacedName{Namespace: team, Name: name})
	must(err)
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" {
			return fmt.Sprint(c["reason"])
		}
	}
	return ""
}
