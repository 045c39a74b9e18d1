package registry_test

import (
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// activeKey is one key for all realms of these tests.
var activeKey = sync.OnceValue(func() signingkey.Key {
	key, err := signingkey.Generate(signingkey.EdDSA, now, rand.Reader)
	if err != nil {
		panic(err)
	}
	key.State = signingkey.Active
	return key
})

func realm(t testing.TB, uid, name string, changes ...func(*registry.RealmSettings)) *registry.Realm {
	t.Helper()
	settings := registry.RealmSettings{
		UID: uid, Name: name, Issuer: "https://api.example.com/" + name, CreatedAt: now,
		TokenLifetime: time.Minute, Keys: []signingkey.Key{activeKey()},
	}
	for _, change := range changes {
		change(&settings)
	}
	r, err := registry.NewRealm(settings)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func createdAt(at time.Time) func(*registry.RealmSettings) {
	return func(s *registry.RealmSettings) { s.CreatedAt = at }
}

func client(uid, realmUID, id string, changes ...func(*registry.Client)) *registry.Client {
	c := &registry.Client{UID: uid, RealmUID: realmUID, ID: id, CreatedAt: now}
	for _, change := range changes {
		change(c)
	}
	return c
}

func disabled(c *registry.Client) { c.Disabled = true }

func aged(d time.Duration) func(*registry.Client) {
	return func(c *registry.Client) { c.CreatedAt = now.Add(-d) }
}

// found is the UID of the client that answers to that id in the realm of that name.
func found(r *registry.Registry, realmName, id string) string {
	realm := r.Realm(realmName)
	if realm == nil {
		return "no realm"
	}
	if c := realm.Client(id); c != nil {
		return c.UID
	}
	return ""
}

func nothing(string) bool { return false }

func TestLookUp(t *testing.T) {
	reg := registry.New()
	if reg.Loaded() || reg.Realm("acme") != nil || found(reg, "acme", "billing") != "no realm" {
		t.Error("a new registry holds something")
	}
	reg.Replace([]*registry.Realm{realm(t, "r1", "acme"), realm(t, "r2", "globex")}, []*registry.Client{
		client("c1", "r1", "billing"), client("c2", "r2", "billing"), client("c3", "r1", "stock"), client("c4", "nowhere", "lost"),
	}, nothing)
	if !reg.Loaded() {
		t.Error("not loaded")
	}
	tests := map[string]struct{ realm, id, want string }{
		"a client":                       {"acme", "billing", "c1"},
		"its namesake in another realm":  {"globex", "billing", "c2"},
		"another":                        {"acme", "stock", "c3"},
		"one of another realm":           {"globex", "stock", ""},
		"an id of another case":          {"acme", "Billing", ""},
		"no id":                          {"acme", "", ""},
		"one whose realm isn't there":    {"acme", "lost", ""},
		"an unknown realm":               {"initech", "billing", "no realm"},
		"a realm's name in another case": {"Acme", "billing", "no realm"},
		"a realm's UID for its name":     {"r1", "billing", "no realm"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := found(reg, tc.realm, tc.id); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	if realms, clients := reg.Size(); realms != 2 || clients != 4 {
		t.Errorf("%d realms and %d clients, want 2 and 4", realms, clients)
	}
}

func TestReplace(t *testing.T) {
	reg := registry.New()
	reg.Replace([]*registry.Realm{realm(t, "r1", "acme"), realm(t, "r2", "globex"), realm(t, "r3", "initech")},
		[]*registry.Client{client("c1", "r1", "billing"), client("c2", "r1", "stock"), client("c3", "r2", "billing")}, nothing)
	reg.Replace([]*registry.Realm{realm(t, "r1", "acme")}, []*registry.Client{client("c4", "r1", "billing2")},
		func(uid string) bool { return uid == "r3" || uid == "c2" })
	got := map[string]string{
		"replaced": found(reg, "acme", "billing"), "kept": found(reg, "acme", "stock"), "new": found(reg, "acme", "billing2"),
		"realm gone": found(reg, "globex", "billing"), "realm kept": found(reg, "initech", "x"),
	}
	want := map[string]string{"replaced": "", "kept": "c2", "new": "c4", "realm gone": "no realm", "realm kept": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if realms, clients := reg.Size(); realms != 2 || clients != 2 {
		t.Errorf("%d realms and %d clients, want 2 and 2", realms, clients)
	}
}

func TestReplaceWithNothing(t *testing.T) {
	reg := registry.New()
	reg.Replace(nil, nil, nothing)
	if realms, clients := reg.Size(); !reg.Loaded() || realms != 0 || clients != 0 {
		t.Errorf("loaded %t with %d realms and %d clients", reg.Loaded(), realms, clients)
	}
}

// Rivals for one client id: in whatever order they come, the same one answers.
func TestRivals(t *testing.T) {
	tests := map[string]struct {
		rivals []*registry.Client
		want   []string // who answers, as the one before is removed
	}{
		"an enabled one before a disabled one that is older": {
			rivals: []*registry.Client{client("a", "r", "x", disabled, aged(time.Hour)), client("b", "r", "x")},
			want:   []string{"b", "a"},
		},
		"then the older": {
			rivals: []*registry.Client{client("a", "r", "x"), client("b", "r", "x", aged(time.Hour)), client("c", "r", "x", aged(time.Minute))},
			want:   []string{"b", "c", "a"},
		},
		"then the smaller UID": {
			rivals: []*registry.Client{client("b", "r", "x"), client("a", "r", "x"), client("c", "r", "x")},
			want:   []string{"a", "b", "c"},
		},
		"the older of two that are disabled": {
			rivals: []*registry.Client{client("a", "r", "x", disabled), client("b", "r", "x", disabled, aged(time.Hour)), client("c", "r", "x")},
			want:   []string{"c", "b", "a"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, order := range permutations(tc.rivals) {
				reg := registry.New()
				reg.SetRealm(realm(t, "r", "acme"))
				for _, c := range order {
					reg.SetClient(c)
				}
				for _, want := range append(tc.want, "") {
					if got := found(reg, "acme", "x"); got != want {
						t.Fatalf("%q answers, want %q", got, want)
					}
					reg.RemoveClient(want)
				}
			}
		})
	}
}

func permutations[T any](all []T) [][]T {
	if len(all) == 0 {
		return [][]T{nil}
	}
	var out [][]T
	for i := range all {
		rest := append(append([]T{}, all[:i]...), all[i+1:]...)
		for _, p := range permutations(rest) {
			out = append(out, append([]T{all[i]}, p...))
		}
	}
	return out
}

func TestClientChanges(t *testing.T) {
	reg := registry.New()
	reg.SetRealm(realm(t, "r1", "acme"))
	reg.SetRealm(realm(t, "r2", "globex"))
	reg.SetClient(client("c1", "r1", "billing"))
	reg.SetClient(client("c2", "r1", "billing", disabled))
	reg.SetClient(client("c1", "r1", "billing", disabled, func(c *registry.Client) { c.CreatedAt = now.Add(time.Hour) }))
	if got := found(reg, "acme", "billing"); got != "c2" {
		t.Errorf("disabled, and younger than its rival: %q answers, want c2", got)
	}
	reg.SetClient(client("c1", "r1", "renamed"))
	reg.SetClient(client("c2", "r2", "billing"))
	got := []string{found(reg, "acme", "billing"), found(reg, "acme", "renamed"), found(reg, "globex", "billing")}
	if diff := cmp.Diff([]string{"", "c1", "c2"}, got); diff != "" {
		t.Errorf("another id, another realm (-want +got):\n%s", diff)
	}
	reg.RemoveClient("c1")
	reg.RemoveClient("c1")
	reg.RemoveClient("never there")
	reg.SetClient(client("c1", "r1", "billing"))
	if got := found(reg, "acme", "billing"); got != "c1" {
		t.Errorf("removed and added again: %q answers, want c1", got)
	}
	if _, clients := reg.Size(); clients != 2 {
		t.Errorf("%d clients, want 2", clients)
	}
}

// Readers go on while everything changes, and see whole states: the verifier of a client
// always fits its id.
func TestConcurrentReaders(t *testing.T) {
	reg := registry.New()
	credentials := map[string][]clientsecret.Credential{}
	for _, id := range []string{"a", "b"} {
		verifier, err := clientsecret.Hash(id, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		credentials[id] = []clientsecret.Credential{{Verifier: verifier}}
	}
	with := func(c *registry.Client) { c.Secrets = credentials[c.ID] }
	var (
		stop    = make(chan struct{})
		running sync.WaitGroup
	)
	for _, id := range []string{"a", "b"} {
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				reg.Loaded()
				reg.Size()
				realm := reg.Realm("acme")
				if realm == nil {
					continue
				}
				if len(realm.JWKS) == 0 || realm.Signer == nil {
					t.Error("half a realm")
				}
				if c := realm.Client(id); c != nil && (c.ID != id || clientsecret.VerifyFast(c.Secrets, id, time.Time{}) == nil) {
					t.Error("half a client")
				}
			}
		})
	}
	for range 100 {
		reg.SetRealm(realm(t, "r1", "acme"))
		reg.SetClient(client("c1", "r1", "a", with))
		reg.SetClient(client("c2", "r1", "a", with, disabled))
		reg.SetClient(client("c3", "r1", "b", with))
		reg.SetRealm(realm(t, "r2", "acme", createdAt(now.Add(time.Second))))
		reg.SetClient(client("c1", "r1", "b", with))
		reg.RemoveRealm("r1")
		reg.RemoveClient("c2")
		reg.Replace([]*registry.Realm{realm(t, "r2", "acme")}, []*registry.Client{client("c1", "r2", "a", with)}, nothing)
		reg.RemoveRealm("r2")
	}
	close(stop)
	running.Wait()
}
