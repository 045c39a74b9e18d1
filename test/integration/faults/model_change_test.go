package faults_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// change makes one random change.
func (m *model) change(t *testing.T) {
	t.Helper()
	name := fmt.Sprint(prefix, m.random.IntN(changingClients))
	switch m.random.IntN(16) {
	case 0:
		m.rotateKeys(t, stable)
	case 1:
		m.rotateSecret(t, stable)
	case 2, 3:
		m.changeRealm(t)
	case 4, 5:
		m.changeProvided(t, name)
	default:
		m.changeClient(t, name)
	}
}

func (m *model) rotateKeys(t *testing.T, realm string) {
	t.Helper()
	if r := m.realms[realm]; r != nil {
		install.Change(t, m.inst, r, func(r *v1alpha1.Realm) { r.Spec.Signing.RotateAfter = thisInstant() })
	}
}

func (m *model) rotateSecret(t *testing.T, name string) {
	t.Helper()
	if c := m.clients[name]; c != nil && c.GeneratesSecret() {
		install.Change(t, m.inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(thisInstant(), time.Second) })
	}
}

func thisInstant() *metav1.Time { return &metav1.Time{Time: time.Now()} }

// changeRealm changes the realm "unstable".
func (m *model) changeRealm(t *testing.T) {
	t.Helper()
	realm := m.realms[unstable]
	if realm == nil {
		m.realms[unstable] = m.newRealm(t, unstable)
		m.inst.Create(t, m.realms[unstable])
		return
	}
	switch m.random.IntN(5) {
	case 0:
		m.inst.Delete(t, realm)
		delete(m.realms, unstable)
	case 1:
		install.Change(t, m.inst, realm, func(r *v1alpha1.Realm) { r.Spec.Suspend = !r.Spec.Suspend })
	case 2:
		install.Change(t, m.inst, realm, func(r *v1alpha1.Realm) { r.Spec.Scopes = m.someScopes() })
	case 3:
		trusted := []v1alpha1.TrustedIssuer{m.ci.Trusted(t)}
		install.Change(t, m.inst, realm, func(r *v1alpha1.Realm) {
			if len(r.Spec.TrustedIssuers) > 0 {
				r.Spec.TrustedIssuers = nil
				return
			}
			r.Spec.TrustedIssuers = trusted
		})
	default:
		m.rotateKeys(t, unstable)
	}
}

func (m *model) changeProvided(t *testing.T, name string) {
	t.Helper()
	v := m.external[name]
	switch {
	case v == nil:
		m.external[name] = labeledSecret(m.team, "external-"+name, m.secret())
		m.inst.Create(t, m.external[name])
	case m.random.IntN(4) == 0:
		m.inst.Delete(t, v)
		delete(m.external, name)
	default:
		m.noteChosen(name)
		install.Change(t, m.inst, v, func(v *corev1.Secret) { v.Data["PASSWORD"] = []byte(m.secret()) })
	}
}

// noteChosen records the secret of a client whose secret was chosen by its user, not generated.
func (m *model) noteChosen(name string) {
	c, v := m.clients[name], m.external[name]
	if c == nil || c.Spec.Secret == nil || c.Status.TokenEndpoint == "" {
		return
	}
	switch source := c.Spec.Secret; {
	case source.Provided != nil && v != nil:
		m.note(credentialIn(scenario.Credentials(c, string(v.Data["PASSWORD"]))))
	case len(source.Hashed) > 0:
		m.note(credentialIn(scenario.Credentials(c, m.hashed[source.Hashed[0].Hash])))
	}
}

func (m *model) changeClient(t *testing.T, name string) {
	t.Helper()
	c := m.clients[name]
	if c == nil {
		m.clients[name] = m.newClient(name)
		m.inst.Create(t, m.clients[name])
		return
	}
	m.noteChosen(name)
	set := func(change func(*v1alpha1.ApiClient)) { install.Change(t, m.inst, c, change) }
	switch m.random.IntN(12) {
	case 0:
		m.inst.Delete(t, c)
		delete(m.clients, name)
	case 1:
		set(func(c *v1alpha1.ApiClient) { c.Spec.Suspend = !c.Spec.Suspend })
	case 2:
		set(func(c *v1alpha1.ApiClient) { c.Spec.Scopes = m.someScopes() })
	case 3, 4:
		set(func(c *v1alpha1.ApiClient) { c.Spec.Secret = providedBy(m.providedRef(name), time.Second) })
	case 5:
		secret := m.secret()
		source := hashOf(t, secret)
		m.hashed[source.Hashed[0].Hash] = secret
		set(func(c *v1alpha1.ApiClient) { c.Spec.Secret = source })
	case 6:
		set(func(c *v1alpha1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(nil, time.Second) })
	case 7:
		credentials := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.team, Name: name}}
		if err := m.inst.Env.Client.Delete(t.Context(), credentials); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	case 8, 9:
		identities := m.someIdentities(name)
		set(func(c *v1alpha1.ApiClient) { c.Spec.FederatedIdentities = identities })
	default:
		m.rotateSecret(t, name)
	}
}

func (m *model) providedRef(name string) *corev1.Secret {
	return labeledSecret(m.team, "external-"+name, "")
}

// repair recreates the objects that clients refer to, so that every client is accepted. The state
// of a client that isn't accepted depends on its history.
func (m *model) repair(t *testing.T) {
	t.Helper()
	if m.realms[unstable] == nil {
		m.changeRealm(t)
	}
	trusted := []v1alpha1.TrustedIssuer{m.ci.Trusted(t)}
	install.Change(t, m.inst, m.realms[unstable], func(r *v1alpha1.Realm) { r.Spec.Scopes, r.Spec.TrustedIssuers = allScopes, trusted })
	for i := range changingClients {
		if name := fmt.Sprint(prefix, i); m.external[name] == nil {
			m.changeProvided(t, name)
		}
	}
}

// secret returns the next random secret for the seed. Generated secrets are strong, so they don't
// need a slow hash.
func (m *model) secret() string {
	random := make([]byte, 64)
	for i := range random {
		random[i] = byte(m.random.Uint32())
	}
	secret, err := clientsecret.Generate(bytes.NewReader(random))
	if err != nil {
		panic(err)
	}
	return secret
}
