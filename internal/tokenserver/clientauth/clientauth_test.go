package clientauth_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// Other cases are covered over HTTP by the tests in package tokenserver.

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const issuer = "https://api.example.com/acme"

// newRealm returns a realm with the client "signing", which has the public half of the given key.
func newRealm(t *testing.T, key signingkey.Key) *registry.Realm {
	t.Helper()
	key.State = signingkey.Active
	realm, err := registry.NewRealm(registry.RealmSettings{
		UID: "realm", Name: "acme", Issuer: issuer, TokenLifetime: time.Minute, Keys: []signingkey.Key{key},
	})
	if err != nil {
		t.Fatal(err)
	}
	reg := registry.New()
	reg.SetRealm(realm)
	reg.SetClient(&registry.Client{UID: "client", RealmUID: "realm", ID: "signing", PublicKeys: []signingkey.PublicKey{key.Public()}})
	return reg.Realm("acme")
}

// assertionOf returns a valid assertion that the client "signing" signed with the given key.
func assertionOf(t *testing.T, key signingkey.Key) string {
	t.Helper()
	part := func(members map[string]any) string {
		data, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(data)
	}
	input := part(map[string]any{"alg": key.Algorithm, "kid": key.ID, "typ": "JWT"}) + "." + part(map[string]any{
		"iss": "signing", "sub": "signing", "aud": issuer, "jti": "one", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	})
	signature, err := key.Signer().Sign(nil, []byte(input))
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestClientWithTooManyAssertionsIsAskedToWait(t *testing.T) {
	key, err := signingkey.Generate(signingkey.ES256, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := clientauth.New(clientauth.Options{
		Argon2idChecks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "checks"}, []string{"outcome"}),
		Logger:         slog.New(slog.DiscardHandler),
	})
	if err := a.FillAssertions("client", now); err != nil {
		t.Fatal(err)
	}
	p := &oauth.Parameters{ClientAssertion: assertionOf(t, key), ClientAssertionType: oauth.AssertionTypeJWT}
	_, err = a.Authenticate(t.Context(), newRealm(t, key), http.Header{}, p, netip.Addr{}, now)
	if !errors.Is(err, oauth.ErrAssertionsFull) {
		t.Errorf("got error %v, want %v", err, oauth.ErrAssertionsFull)
	}
}
