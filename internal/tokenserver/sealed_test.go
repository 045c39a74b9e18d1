package tokenserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// A realm whose active key isn't decrypted issues no tokens. Its keys are published, its tokens are
// verified, and other realms aren't affected.
func TestRealmWithSealedKey(t *testing.T) {
	s := startLoaded(t)
	token := issued(t, s, "billing", "")
	active := keyIn(signingkey.Active, signingkey.ES256)
	realm := newRealm(t, "acme", func(r *registry.RealmSettings) {
		r.Keys = []signingkey.Key{active.Seal(signingkey.Sealed{RealmUID: r.UID, KeyID: "1"})}
	})
	s.registry.SetRealm(realm)
	s.registry.SetRealm(newRealm(t, "other", nil))
	s.registry.SetClient(newClient(t, "other", "billing", nil))
	client := s.direct()

	for name, authorization := range map[string]string{"valid secret": basic("billing", secret), "wrong secret": basic("billing", "wrong-secret-0123456789")} {
		got := s.send(t, client, request{body: grant, authorization: authorization})
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "temporarily_unavailable") {
			t.Errorf("%s: got %d %v %s", name, got.status, got.header, got.body)
		}
	}
	if got := s.send(t, client, request{path: introspectPath, body: "token=" + token, authorization: basic("gateway", secret)}); !strings.Contains(got.body, `"active":true`) {
		t.Errorf("introspection: got %d %s", got.status, got.body)
	}
	if got := s.send(t, client, request{method: http.MethodGet, path: "/acme/oauth2/jwks"}); !strings.Contains(got.body, active.ID) {
		t.Errorf("keys: got %d %s", got.status, got.body)
	}
	if got := s.send(t, client, request{path: "/other/oauth2/token", body: grant, authorization: basic("billing", secret)}); got.status != http.StatusOK {
		t.Errorf("other realm: got %d %s", got.status, got.body)
	}

	realm.Open(&active)
	if got := s.send(t, client, request{body: grant, authorization: basic("billing", secret)}); got.status != http.StatusOK {
		t.Errorf("after the key was decrypted: got %d %s", got.status, got.body)
	}
}

// A realm whose first key isn't active yet issues no tokens, and publishes the key.
func TestRealmWithoutActiveKey(t *testing.T) {
	s := startLoaded(t)
	pending := keyIn(signingkey.Pending, signingkey.ES256)
	s.registry.SetRealm(newRealm(t, "acme", func(r *registry.RealmSettings) { r.Keys = []signingkey.Key{pending} }))
	client := s.direct()
	got := s.send(t, client, request{body: grant, authorization: basic("billing", secret)})
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "temporarily_unavailable") {
		t.Errorf("token: got %d %v %s", got.status, got.header, got.body)
	}
	if got := s.send(t, client, request{method: http.MethodGet, path: "/acme/oauth2/jwks"}); !strings.Contains(got.body, pending.ID) {
		t.Errorf("keys: got %d %s", got.status, got.body)
	}
}
