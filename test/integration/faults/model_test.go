package faults_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// world is what people want of an installation, and changes at random: the same seed makes
// the same changes. The client "steady" and its realm change in nothing but keys and secrets.
type world struct {
	inst    *install.Installation
	team    string
	random  *rand.Rand
	realms  map[string]*v1alpha1.Realm
	clients map[string]*v1alpha1.ApiClient // without those that are deleted
	vaults  map[string]*corev1.Secret      // by the name of the client that each is for
	hashed  map[string]string              // the secrets whose hashes were made, by the hash

	mu   sync.Mutex
	seen map[had]bool
}

const (
	steady   = "steady"
	fickle   = "fickle"
	stranger = "client-"
	changing = 6 // how many clients change
)

var allScopes = []string{"admin", "read", "write"}

func newWorld(inst *install.Installation, team string, seed uint64) *world {
	w := emptyWorld(inst, team)
	w.random = rand.New(rand.NewPCG(seed, 1))
	for _, name := range []string{steady, fickle} {
		w.realms[name] = realmOf(name)
	}
	w.clients[steady] = install.ApiClient(team, steady, steady, func(c *v1alpha1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(nil, time.Second) })
	for i := range changing {
		name := fmt.Sprint(stranger, i)
		w.vaults[name] = vaultOf(team, "vault-"+name, w.secret())
		w.clients[name] = w.newClient(name)
	}
	return w
}

func emptyWorld(inst *install.Installation, team string) *world {
	return &world{
		inst: inst, team: team, realms: map[string]*v1alpha1.Realm{}, clients: map[string]*v1alpha1.ApiClient{},
		vaults: map[string]*corev1.Secret{}, hashed: map[string]string{}, seen: map[had]bool{},
	}
}

func realmOf(name string) *v1alpha1.Realm {
	return install.Realm(name, func(r *v1alpha1.Realm) {
		r.Spec.Scopes = allScopes
		r.Spec.Signing.PublishAhead = &metav1.Duration{Duration: 10 * time.Minute}
	})
}

func (w *world) newClient(name string) *v1alpha1.ApiClient {
	realm := []string{steady, fickle}[w.random.IntN(2)]
	return install.ApiClient(w.team, name, realm, func(c *v1alpha1.ApiClient) { c.Spec.Scopes = w.someScopes() })
}

func (w *world) someScopes() []string {
	return slices.DeleteFunc(slices.Clone(allScopes), func(string) bool { return w.random.IntN(4) == 0 })
}

// all returns the objects in an order in which nothing has to wait.
func (w *world) all() []client.Object {
	var all []client.Object
	for _, name := range slices.Sorted(maps.Keys(w.realms)) {
		all = append(all, w.realms[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.vaults)) {
		all = append(all, w.vaults[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.clients)) {
		all = append(all, w.clients[name])
	}
	return all
}

// again returns the same specs as new objects for another installation.
func (w *world) again(inst *install.Installation, team string) *world {
	fresh := emptyWorld(inst, team)
	for name, r := range w.realms {
		fresh.realms[name] = install.Realm(name, func(again *v1alpha1.Realm) { again.Spec = r.Spec })
	}
	for name, v := range w.vaults {
		fresh.vaults[name] = vaultOf(team, v.Name, string(v.Data["PASSWORD"]))
	}
	for name, c := range w.clients {
		fresh.clients[name] = install.ApiClient(team, name, c.Spec.RealmRef.Name, func(again *v1alpha1.ApiClient) { again.Spec = c.Spec })
	}
	return fresh
}

// collect notes every secret that stands in a consumer Secret from now on.
func (w *world) collect(t *testing.T) {
	t.Helper()
	events, err := w.inst.Env.Client.Watch(t.Context(), &corev1.SecretList{}, client.InNamespace(w.team))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for event := range events.ResultChan() {
			if secret, ok := event.Object.(*corev1.Secret); ok && secret.Labels[v1alpha1.ClientSecretLabel] == v1alpha1.ClientSecretGenerated {
				w.note(hadIn(secret))
			}
		}
	})
	t.Cleanup(func() { events.Stop(); running.Wait() })
}

func (w *world) note(h had) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[h] = true
}

func (w *world) everHad() map[had]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.seen)
}

// valid returns the secrets with which clients can get tokens by what their status says.
func (w *world) valid(t *testing.T) map[had]bool {
	t.Helper()
	valid := map[had]bool{}
	for name, c := range w.clients {
		if err := w.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			t.Fatal(err)
		}
		if !meta.IsStatusConditionTrue(c.Status.Conditions, string(v1alpha1.ConditionReady)) {
			continue
		}
		var credentials *corev1.Secret
		switch source := c.Spec.Secret; {
		case source != nil && source.Provided != nil:
			credentials = scenario.Credentials(c, string(w.vaults[name].Data["PASSWORD"]))
		case source != nil && len(source.Hashed) > 0:
			credentials = scenario.Credentials(c, w.hashed[source.Hashed[0].Hash])
		default:
			credentials = w.inst.CredentialsSecret(t, c)
		}
		valid[hadIn(credentials)] = true
		w.note(hadIn(credentials))
	}
	return valid
}
