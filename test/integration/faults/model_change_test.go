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

// change makes one change of the world.
func (w *world) change(t *testing.T) {
	t.Helper()
	name := fmt.Sprint(stranger, w.random.IntN(changing))
	switch w.random.IntN(16) {
	case 0:
		w.rotateKeys(t, steady)
	case 1:
		w.rotateSecret(t, steady)
	case 2, 3:
		w.changeRealm(t)
	case 4, 5:
		w.changeVault(t, name)
	default:
		w.changeClient(t, name)
	}
}

func (w *world) rotateKeys(t *testing.T, realm string) {
	t.Helper()
	if r := w.realms[realm]; r != nil {
		install.Change(t, w.inst, r, func(r *v1alpha1.Realm) { r.Spec.Signing.RotateAfter = thisInstant() })
	}
}

func (w *world) rotateSecret(t *testing.T, name string) {
	t.Helper()
	if c := w.clients[name]; c != nil && (c.Spec.Secret == nil || c.Spec.Secret.Generated != nil) {
		install.Change(t, w.inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(thisInstant(), time.Second) })
	}
}

func thisInstant() *metav1.Time { return &metav1.Time{Time: time.Now()} }

// changeRealm changes the fickle realm.
func (w *world) changeRealm(t *testing.T) {
	t.Helper()
	realm := w.realms[fickle]
	if realm == nil {
		w.realms[fickle] = realmOf(fickle)
		w.inst.Create(t, w.realms[fickle])
		return
	}
	switch w.random.IntN(4) {
	case 0:
		w.inst.Delete(t, realm)
		delete(w.realms, fickle)
	case 1:
		install.Change(t, w.inst, realm, func(r *v1alpha1.Realm) { r.Spec.Suspend = !r.Spec.Suspend })
	case 2:
		install.Change(t, w.inst, realm, func(r *v1alpha1.Realm) { r.Spec.Scopes = w.someScopes() })
	default:
		w.rotateKeys(t, fickle)
	}
}

func (w *world) changeVault(t *testing.T, name string) {
	t.Helper()
	v := w.vaults[name]
	switch {
	case v == nil:
		w.vaults[name] = vaultOf(w.team, "vault-"+name, w.secret())
		w.inst.Create(t, w.vaults[name])
	case w.random.IntN(4) == 0:
		w.inst.Delete(t, v)
		delete(w.vaults, name)
	default:
		w.noteProvided(name)
		install.Change(t, w.inst, v, func(v *corev1.Secret) { v.Data["PASSWORD"] = []byte(w.secret()) })
	}
}

// noteProvided notes what a client has that takes its secret from elsewhere.
func (w *world) noteProvided(name string) {
	c, v := w.clients[name], w.vaults[name]
	if c == nil || c.Spec.Secret == nil || c.Status.TokenEndpoint == "" {
		return
	}
	switch source := c.Spec.Secret; {
	case source.Provided != nil && v != nil:
		w.note(hadIn(scenario.Credentials(c, string(v.Data["PASSWORD"]))))
	case len(source.Hashed) > 0:
		w.note(hadIn(scenario.Credentials(c, w.hashed[source.Hashed[0].Hash])))
	}
}

func (w *world) changeClient(t *testing.T, name string) {
	t.Helper()
	c := w.clients[name]
	if c == nil {
		w.clients[name] = w.newClient(name)
		w.inst.Create(t, w.clients[name])
		return
	}
	w.noteProvided(name)
	set := func(change func(*v1alpha1.ApiClient)) { install.Change(t, w.inst, c, change) }
	switch w.random.IntN(10) {
	case 0:
		w.inst.Delete(t, c)
		delete(w.clients, name)
	case 1:
		set(func(c *v1alpha1.ApiClient) { c.Spec.Suspend = !c.Spec.Suspend })
	case 2:
		set(func(c *v1alpha1.ApiClient) { c.Spec.Scopes = w.someScopes() })
	case 3, 4:
		set(func(c *v1alpha1.ApiClient) { c.Spec.Secret = in(w.vaultRef(name), time.Second) })
	case 5:
		secret := w.secret()
		source := hashOf(t, secret)
		w.hashed[source.Hashed[0].Hash] = secret
		set(func(c *v1alpha1.ApiClient) { c.Spec.Secret = source })
	case 6:
		set(func(c *v1alpha1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(nil, time.Second) })
	case 7:
		credentials := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.team, Name: name}}
		if err := w.inst.Env.Client.Delete(t.Context(), credentials); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	default:
		w.rotateSecret(t, name)
	}
}

func (w *world) vaultRef(name string) *corev1.Secret { return vaultOf(w.team, "vault-"+name, "") }

// repair brings back what clients refer to, so that each is accepted: of one that isn't
// there stays what it had, and that is history.
func (w *world) repair(t *testing.T) {
	t.Helper()
	if w.realms[fickle] == nil {
		w.changeRealm(t)
	}
	install.Change(t, w.inst, w.realms[fickle], func(r *v1alpha1.Realm) { r.Spec.Scopes = allScopes })
	for i := range changing {
		if name := fmt.Sprint(stranger, i); w.vaults[name] == nil {
			w.changeVault(t, name)
		}
	}
}

// secret makes a secret that needs no slow hash, always the same of a seed.
func (w *world) secret() string {
	random := make([]byte, 64)
	for i := range random {
		random[i] = byte(w.random.Uint32())
	}
	secret, err := clientsecret.Generate(bytes.NewReader(random))
	if err != nil {
		panic(err)
	}
	return secret
}
