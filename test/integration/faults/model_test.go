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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/issuer"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// model contains the desired state of an installation and changes it at random. The same seed
// produces the same changes. The spec of the client "stable" and of its realm never changes, but
// their secrets and keys rotate.
type model struct {
	inst     *install.Installation
	team     string
	random   *rand.Rand
	realms   map[string]*v1alpha1.Realm
	clients  map[string]*v1alpha1.ApiClient // except deleted ones
	external map[string]*corev1.Secret      // provided Secrets by client name
	hashed   map[string]string              // secrets by hash
	ci       *issuer.Static                 // the trusted issuer of the realms

	mu   sync.Mutex
	seen map[credential]bool
}

const (
	stable          = "stable"
	unstable        = "unstable"
	prefix          = "client-"
	changingClients = 6 // number of clients that change
)

var allScopes = []string{"admin", "read", "write"}

func newModel(t *testing.T, inst *install.Installation, team string, seed uint64) *model {
	t.Helper()
	m := emptyModel(inst, team)
	m.ci = issuer.NewStatic(t, "ci", "https://ci.example.com")
	m.random = rand.New(rand.NewPCG(seed, 1))
	for _, name := range []string{stable, unstable} {
		m.realms[name] = m.newRealm(t, name)
	}
	m.clients[stable] = install.ApiClient(team, stable, stable, func(c *v1alpha1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(nil, time.Second) })
	for i := range changingClients {
		name := fmt.Sprint(prefix, i)
		m.external[name] = labeledSecret(team, "external-"+name, m.secret())
		m.clients[name] = m.newClient(name)
	}
	return m
}

func emptyModel(inst *install.Installation, team string) *model {
	return &model{
		inst: inst, team: team, realms: map[string]*v1alpha1.Realm{}, clients: map[string]*v1alpha1.ApiClient{},
		external: map[string]*corev1.Secret{}, hashed: map[string]string{}, seen: map[credential]bool{},
	}
}

func (m *model) newRealm(t *testing.T, name string) *v1alpha1.Realm {
	t.Helper()
	return install.Realm(name, func(r *v1alpha1.Realm) {
		r.Spec.TrustedIssuers = []v1alpha1.TrustedIssuer{m.ci.Trusted(t)}
		r.Spec.Scopes = allScopes
		r.Spec.Signing.PublishAhead = &v1alpha1.Duration{Duration: 10 * time.Minute}
	})
}

func (m *model) newClient(name string) *v1alpha1.ApiClient {
	realm := []string{stable, unstable}[m.random.IntN(2)]
	return install.ApiClient(m.team, name, realm, func(c *v1alpha1.ApiClient) {
		c.Spec.Scopes, c.Spec.Secret, c.Spec.FederatedIdentities = m.someScopes(), install.GeneratedSecret(), m.someIdentities(name)
	})
}

// subjectsOf returns the subjects that a client can list. Clients do not compete, because which one
// is first depends on the faults.
func subjectsOf(client string) []string {
	return []string{"repo:" + client + "/a", "repo:" + client + "/b"}
}

func (m *model) someIdentities(client string) []v1alpha1.FederatedIdentity {
	return byWorkload(slices.DeleteFunc(subjectsOf(client), func(string) bool { return m.random.IntN(2) == 0 })...)
}

func (m *model) someScopes() []string {
	return slices.DeleteFunc(slices.Clone(allScopes), func(string) bool { return m.random.IntN(4) == 0 })
}

// all returns the objects, with each object after the ones that it refers to.
func (m *model) all() []client.Object {
	var all []client.Object
	for _, name := range slices.Sorted(maps.Keys(m.realms)) {
		all = append(all, m.realms[name])
	}
	for _, name := range slices.Sorted(maps.Keys(m.external)) {
		all = append(all, m.external[name])
	}
	for _, name := range slices.Sorted(maps.Keys(m.clients)) {
		all = append(all, m.clients[name])
	}
	return all
}

// again returns a model with new objects that have the same specs, for a different installation.
func (m *model) again(inst *install.Installation, team string) *model {
	fresh := emptyModel(inst, team)
	for name, r := range m.realms {
		fresh.realms[name] = install.Realm(name, func(again *v1alpha1.Realm) { again.Spec = r.Spec })
	}
	for name, v := range m.external {
		fresh.external[name] = labeledSecret(team, v.Name, string(v.Data["PASSWORD"]))
	}
	for name, c := range m.clients {
		fresh.clients[name] = install.ApiClient(team, name, c.Spec.RealmRef.Name, func(again *v1alpha1.ApiClient) { again.Spec = c.Spec })
	}
	return fresh
}

// collect records every client secret that is ever stored in a credentials Secret.
func (m *model) collect(t *testing.T) {
	t.Helper()
	events, err := m.inst.Env.Client.Watch(t.Context(), &corev1.SecretList{}, client.InNamespace(m.team))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for event := range events.ResultChan() {
			if secret, ok := event.Object.(*corev1.Secret); ok && secret.Labels[v1alpha1.ClientSecretLabel] == v1alpha1.ClientSecretGenerated {
				m.note(credentialIn(secret))
			}
		}
	})
	t.Cleanup(func() { events.Stop(); running.Wait() })
}

func (m *model) note(c credential) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[c] = true
}

func (m *model) everHad() map[credential]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.seen)
}

// valid returns the secrets that are valid according to the clients' status.
func (m *model) valid(t *testing.T) map[credential]bool {
	t.Helper()
	valid := map[credential]bool{}
	for name, c := range m.clients {
		if err := m.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			t.Fatal(err)
		}
		if !meta.IsStatusConditionTrue(c.Status.Conditions, string(v1alpha1.ConditionReady)) {
			continue
		}
		var credentials *corev1.Secret
		switch source := c.Spec.Secret; {
		case source != nil && source.Provided != nil:
			credentials = scenario.Credentials(c, string(m.external[name].Data["PASSWORD"]))
		case source != nil && len(source.Hashed) > 0:
			credentials = scenario.Credentials(c, m.hashed[source.Hashed[0].Hash])
		default:
			credentials = m.inst.CredentialsSecret(t, c)
		}
		valid[credentialIn(credentials)] = true
		m.note(credentialIn(credentials))
	}
	return valid
}
