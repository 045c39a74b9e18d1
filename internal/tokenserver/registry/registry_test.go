package registry_test

import (
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// activeKey is the signing key of all realms in these tests.
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
		Record: uid, UID: uid, Name: name, Issuer: "https://api.example.com/" + name, CreatedAt: now,
		TokenLifetime: time.Minute, Keys: []signingkey.Key{activeKey()},
	}
	for _, change := range changes {
		change(&settings)
	}
	return testkit.Value(registry.NewRealm(settings))(t)
}

func createdAt(at time.Time) func(*registry.RealmSettings) {
	return func(s *registry.RealmSettings) { s.CreatedAt = at }
}

func client(uid, realmUID, id string, changes ...func(*registry.Client)) *registry.Client {
	c := &registry.Client{Record: uid, UID: uid, RealmUID: realmUID, ID: id}
	for _, change := range changes {
		change(c)
	}
	return c
}

func disabled(c *registry.Client) { c.Disabled = true }

// found returns the UID of the client with the given client ID in the named realm.
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

func keepNone(string) bool { return false }

func TestLookup(t *testing.T) {
	reg := registry.New()
	if reg.Loaded() || reg.Realm("acme") != nil || found(reg, "acme", "billing") != "no realm" {
		t.Error("a new registry is not empty")
	}
	reg.Replace([]*registry.Realm{realm(t, "r1", "acme"), realm(t, "r2", "globex")}, []*registry.Client{
		client("c1", "r1", "billing"), client("c2", "r2", "billing"), client("c3", "r1", "stock"), client("c4", "nowhere", "lost"),
	}, nil, nil, keepNone)
	if !reg.Loaded() {
		t.Error("Loaded() = false after Replace, want true")
	}
	tests := map[string]struct{ realm, id, want string }{
		"same ID in another realm":         {"globex", "billing", "c2"},
		"client of another realm":          {"globex", "stock", ""},
		"client ID in another case":        {"acme", "Billing", ""},
		"client of a realm without record": {"acme", "lost", ""},
		"realm name in another case":       {"Acme", "billing", "no realm"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			testkit.Diff(t, "client", tc.want, found(reg, tc.realm, tc.id))
		})
	}
	if realms, clients := reg.Size(); realms != 2 || clients != 4 {
		t.Errorf("Size() = %d realms and %d clients, want 2 and 4", realms, clients)
	}
}

func TestReplaceRemovesAllButListedAndKept(t *testing.T) {
	reg := registry.New()
	reg.Replace([]*registry.Realm{realm(t, "r1", "acme"), realm(t, "r2", "globex"), realm(t, "r3", "initech")},
		[]*registry.Client{client("c1", "r1", "billing"), client("c2", "r1", "stock"), client("c3", "r2", "billing")}, nil, nil, keepNone)
	reg.Replace([]*registry.Realm{realm(t, "r1", "acme")}, []*registry.Client{client("c4", "r1", "billing2")}, nil, nil,
		func(uid string) bool { return uid == "r3" || uid == "c2" })
	got := map[string]string{
		"replaced": found(reg, "acme", "billing"), "kept": found(reg, "acme", "stock"), "new": found(reg, "acme", "billing2"),
		"realm gone": found(reg, "globex", "billing"), "realm kept": found(reg, "initech", "x"),
	}
	want := map[string]string{"replaced": "", "kept": "c2", "new": "c4", "realm gone": "no realm", "realm kept": ""}
	testkit.Diff(t, "result", want, got)
	if realms, clients := reg.Size(); realms != 2 || clients != 2 {
		t.Errorf("Size() = %d realms and %d clients, want 2 and 2", realms, clients)
	}
}

// Concurrent readers must see consistent states while everything changes. A client's verifier
// always matches its ID.
func TestConcurrentReadersSeeConsistentStates(t *testing.T) {
	reg := registry.New()
	credentials := map[string][]clientsecret.Stored{}
	for _, id := range []string{"a", "b"} {
		verifier := testkit.Value(clientsecret.Hash(id, rand.Reader))(t)
		credentials[id] = []clientsecret.Stored{{Verifier: verifier}}
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
				if len(realm.JWKS) == 0 || realm.Signer() == nil {
					t.Error("found an incomplete realm")
				}
				if c := realm.Client(id); c != nil && (c.ID != id || clientsecret.VerifyHMAC(c.Secrets, id, time.Time{}) == nil) {
					t.Error("found an inconsistent client")
				}
			}
		})
	}
	for range 100 {
		reg.SetRealm(realm(t, "r1", "acme"))
		reg.SetClient(client("c1", "r1", "a", with))
		reg.SetClient(client("c1", "r1", "a", with, disabled))
		reg.SetClient(client("c2", "r1", "b", with))
		reg.SetRealm(realm(t, "r2", "acme", createdAt(now.Add(time.Second))))
		reg.SetClient(client("c3", "r2", "b", with))
		reg.Remove("r1")
		reg.Remove("c2")
		reg.Replace([]*registry.Realm{realm(t, "r2", "acme")}, []*registry.Client{client("c4", "r2", "a", with)}, nil, nil, keepNone)
		reg.Remove("r2")
	}
	close(stop)
	running.Wait()
}

// A client loses its last token when its record changes or is deleted, but not when it is listed again unchanged.
func TestLastTokenEndsWithTheVersionOfTheClient(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*registry.Registry, *registry.Client)
		keeps  bool
	}{
		"changed": {change: func(r *registry.Registry, _ *registry.Client) { r.SetClient(client("a", "r", "a")) }},
		"copied": {change: func(r *registry.Registry, c *registry.Client) {
			changed := *c
			r.SetClient(&changed)
		}},
		"deleted":    {change: func(r *registry.Registry, _ *registry.Client) { r.Remove("a") }},
		"not listed": {change: func(r *registry.Registry, _ *registry.Client) { r.Replace(nil, nil, nil, nil, keepNone) }},
		"listed again": {change: func(r *registry.Registry, c *registry.Client) {
			r.Replace(nil, []*registry.Client{c}, nil, nil, keepNone)
		}, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, version := registry.New(), client("a", "r", "a")
			r.SetClient(version)
			reuse, signer := token.NewReuse(10), realm(t, "r", "acme").Signer()
			reused := func(c *registry.Client) bool {
				return testkit.Value(reuse.Issue(signer, token.Claims{ClientID: "a", IssuedAt: now}, c.LastToken(), token.Credential{}, rand.Reader))(t).Reused
			}
			reused(version)
			if !reused(version) {
				t.Fatal("the client has no last token")
			}
			tc.change(r, version)
			testkit.Diff(t, "keeps its token", tc.keeps, reused(version))
			if c := r.ClientOf("a"); c != nil && c != version && reused(c) {
				t.Error("the new version has the token of the former one")
			}
		})
	}
}
