package clientauth_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/replay"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/slowhash"
)

// Other cases are covered over HTTP by the tests in package tokenserver.

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	issuer        = "https://api.example.com/acme"
	clusterIssuer = "https://kubernetes.default.svc"
)

// newRealm returns a realm with the client "signing", which has the public half of the given key.
func newRealm(t *testing.T, key signingkey.Key) (*registry.Registry, *registry.Realm) {
	t.Helper()
	reg, realm := registry.New(), realmWith(t, key, false)
	reg.SetRealm(realm)
	reg.SetClient(&registry.Client{UID: "client", Namespace: "apps", RealmUID: "realm", ID: "signing", PublicKeys: []signingkey.PublicKey{key.Public()}})
	return reg, realm
}

func realmWith(t *testing.T, key signingkey.Key, disabled bool) *registry.Realm {
	t.Helper()
	key.State = signingkey.Active
	realm := testkit.Value(registry.NewRealm(registry.RealmSettings{
		Record: "realm", UID: "realm", Name: "acme", Issuer: issuer, TokenLifetime: time.Minute, Keys: []signingkey.Key{key}, Disabled: disabled,
	}))(t)
	return realm
}

// assertionOf returns a valid assertion that the client "signing" signed with the given key.
func assertionOf(t *testing.T, key signingkey.Key) string {
	t.Helper()
	return signed(t, key, map[string]any{
		"iss": "signing", "sub": "signing", "aud": issuer, "jti": "one", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	})
}

func signed(t *testing.T, key signingkey.Key, claims map[string]any) string {
	t.Helper()
	part := func(members map[string]any) string {
		data := testkit.Value(json.Marshal(members))(t)
		return base64.RawURLEncoding.EncodeToString(data)
	}
	input := part(map[string]any{"alg": key.Algorithm, "kid": key.ID, "typ": "JWT"}) + "." + part(claims)
	signature := testkit.Value(key.Signer().Sign(nil, []byte(input)))(t)
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// The clients in one namespace have a limit together, which doesn't affect other namespaces.
func TestAssertionsOfOneNamespaceAreLimited(t *testing.T) {
	key := testkit.Value(signingkey.Generate(signingkey.ES256, now, rand.Reader))(t)
	reg, realm := newRealm(t, key)
	for namespace, want := range map[string]error{"apps": oauth.ErrAssertionsFull, "others": nil} {
		a := clientauth.New(clientauth.Options{Realm: reg.Realm, Logger: slog.New(slog.DiscardHandler)})
		var err error
		for _, uid := range []string{"one", "two"} {
			err = a.FillAssertions(&registry.Client{Namespace: namespace, UID: uid}, now)
		}
		if !errors.Is(err, replay.ErrFull) {
			t.Fatalf("%s: got error %v, want %v", namespace, err, replay.ErrFull)
		}
		p := &oauth.Parameters{ClientAssertion: assertionOf(t, key), ClientAssertionType: oauth.AssertionTypeJWT}
		if _, err := a.Authenticate(t.Context(), realm, http.Header{}, p, netip.Addr{}, now); !errors.Is(err, want) {
			t.Errorf("limit of the namespace %s reached: got error %v, want %v", namespace, err, want)
		}
	}
}

// changesWhileWaiting are changes while a request of a client waits, and the error that it gets.
func changesWhileWaiting(t *testing.T, original *registry.Client, key signingkey.Key) map[string]struct {
	change func(*registry.Registry)
	want   error
} {
	set := func(change func(*registry.Client)) func(*registry.Registry) {
		return func(r *registry.Registry) {
			changed := *original
			change(&changed)
			r.SetClient(&changed)
		}
	}
	return map[string]struct {
		change func(*registry.Registry)
		want   error
	}{
		"none":            {func(*registry.Registry) {}, nil},
		"same secret":     {set(func(c *registry.Client) { c.TokensPerSecond = 1 }), nil},
		"suspended":       {set(func(c *registry.Client) { c.Disabled = true }), oauth.ErrInvalidClient},
		"no credentials":  {set(func(c *registry.Client) { c.Secrets, c.Identities = nil, nil }), oauth.ErrInvalidClient},
		"deleted":         {func(r *registry.Registry) { r.Remove("record") }, oauth.ErrInvalidClient},
		"realm suspended": {func(r *registry.Registry) { r.SetRealm(realmWith(t, key, true)) }, oauth.ErrInvalidClient},
		"realm deleted":   {func(r *registry.Registry) { r.Remove("realm") }, oauth.ErrInvalidClient},
	}
}

// A secret may wait for its verification. A client that is suspended, changed or deleted in the
// meantime gets no token, and neither does one whose realm is suspended or deleted.
func TestChangesDuringVerification(t *testing.T) {
	verifier := testkit.Value(clientsecret.HashArgon2id("the correct secret", rand.Reader))(t)
	original := registry.Client{
		Record: "record", UID: "client", RealmUID: "realm", ID: "slow",
		Secrets: []clientsecret.Stored{{ID: "only", Verifier: verifier}},
	}
	key := testkit.Value(signingkey.Generate(signingkey.ES256, now, rand.Reader))(t)
	for name, tc := range changesWhileWaiting(t, &original, key) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg, realm := newRealm(t, key)
				client := original
				reg.SetClient(&client)
				a := clientauth.New(clientauth.Options{
					Realm:      reg.Realm,
					SlowHashes: slowhash.New(slowhash.Options{Checks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "checks"}, []string{"outcome"})}),
					Logger:     slog.New(slog.DiscardHandler),
				})
				send := func(secret string, want error) {
					p := &oauth.Parameters{ClientID: "slow", ClientSecret: secret}
					if _, err := a.Authenticate(t.Context(), realm, http.Header{}, p, netip.Addr{}, now); !errors.Is(err, want) {
						t.Errorf("%s: got error %v, want %v", secret, err, want)
					}
				}
				send("a wrong secret", oauth.ErrInvalidClient)
				var correct sync.WaitGroup
				correct.Go(func() { send("the correct secret", tc.want) })
				synctest.Wait() // the client pauses after the wrong secret
				tc.change(reg)
				correct.Wait()
			})
		})
	}
}

// keysAfter is a cluster whose key is known after a change.
type keysAfter struct {
	key    signingkey.PublicKey
	change func()
}

func (k keysAfter) Key(context.Context, string) ([]string, signingkey.PublicKey, error) {
	k.change()
	return []string{clusterIssuer}, k.key, nil
}

func (keysAfter) Known(string) ([]string, signingkey.PublicKey, error) {
	return nil, signingkey.PublicKey{}, jws.ErrKey
}

func (keysAfter) RuleOut(context.Context, string, string) error { return nil }

// A service account token may wait for a new key of the cluster.
func TestChangesWhileAKeyIsLoaded(t *testing.T) {
	key := testkit.Value(signingkey.Generate(signingkey.ES256, now, rand.Reader))(t)
	original := registry.Client{
		Record: "record", UID: "client", RealmUID: "realm", ID: "pod",
		Identities: []registry.Identity{{Account: clientassertion.ServiceAccount{Namespace: "apps", Name: "billing", UID: "account"}}},
	}
	token := signed(t, key, map[string]any{
		"iss": clusterIssuer, "sub": "system:serviceaccount:apps:billing", "aud": issuer, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		"kubernetes.io": map[string]any{
			"namespace": "apps", "pod": map[string]any{"name": "billing-1", "uid": "pod"}, "serviceaccount": map[string]any{"name": "billing", "uid": "account"},
		},
	})
	for name, tc := range changesWhileWaiting(t, &original, key) {
		t.Run(name, func(t *testing.T) {
			reg, realm := newRealm(t, key)
			client := original
			reg.SetClient(&client)
			a := clientauth.New(clientauth.Options{
				Realm: reg.Realm, ClusterKeys: keysAfter{key.Public(), func() { tc.change(reg) }}, Logger: slog.New(slog.DiscardHandler),
			})
			p := &oauth.Parameters{ClientID: "pod", ClientAssertion: token, ClientAssertionType: oauth.AssertionTypeJWT}
			if _, err := a.Authenticate(t.Context(), realm, http.Header{}, p, netip.Addr{}, now); !errors.Is(err, tc.want) {
				t.Errorf("got error %v, want %v", err, tc.want)
			}
		})
	}
}
