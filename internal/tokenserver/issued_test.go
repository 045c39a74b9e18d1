package tokenserver_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// success is a successful response. No other members are allowed.
type success struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int64  `json:"expires_in"`
	Scope       string `json:"scope,omitempty"`
}

// checkToken checks a successful response and returns the token's claims. If wantAud is nil, the
// token must have the realm's audiences.
func checkToken(t *testing.T, got response, wantScope string, wantAud any) map[string]any {
	t.Helper()
	if got.status != http.StatusOK {
		t.Fatalf("got %d %s, want 200", got.status, got.body)
	}
	checkHeader(t, got, http.StatusOK, "")
	var decoded success
	decoder := json.NewDecoder(strings.NewReader(got.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&decoded); err != nil {
		t.Fatalf("body %q: %v", got.body, err)
	}
	claims := payload(t, decoded.AccessToken)
	scope, _ := claims["scope"].(string)
	if decoded.TokenType != "bearer" || decoded.Scope != wantScope || scope != wantScope {
		t.Errorf("got token_type %q, scope %q and scope claim %q, want bearer and %q", decoded.TokenType, decoded.Scope, scope, wantScope)
	}
	if _, present := claims["scope"]; present != (wantScope != "") {
		t.Errorf("the token has a scope claim: %t, want %t", present, !present)
	}
	testkit.Diff(t, "scope in the response", (wantScope != ""), strings.Contains(got.body, `"scope"`))
	issued, _ := claims["iat"].(float64)
	expires, _ := claims["exp"].(float64)
	if int64(issued) != now.Unix() || int64(expires-issued) != decoded.ExpiresIn {
		t.Errorf("iat %v, exp %v and expires_in %d do not match", claims["iat"], claims["exp"], decoded.ExpiresIn)
	}
	if wantAud == nil {
		wantAud = []any{orders, stock}
	}
	testkit.Diff(t, "aud", wantAud, claims["aud"])
	testkit.Diff(t, "iss", "https://"+host+"/acme", claims["iss"])
	return claims
}

func payload(t testing.TB, jwt string) map[string]any {
	t.Helper()
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		t.Fatalf("not a JWT: %q", jwt)
	}
	data := testkit.Value(base64.RawURLEncoding.Strict().DecodeString(parts[1]))(t)
	var claims map[string]any
	testkit.Do(t, json.Unmarshal(data, &claims))
	return claims
}

func accessToken(t testing.TB, got response) string {
	t.Helper()
	var decoded success
	if err := json.Unmarshal([]byte(got.body), &decoded); err != nil || decoded.AccessToken == "" {
		t.Fatalf("no token in %d %q: %v", got.status, got.body, err)
	}
	return decoded.AccessToken
}

// A third-party library can verify tokens of every algorithm with the published keys.
func TestPublishedKeysVerifyTokens(t *testing.T) {
	for _, algorithm := range signingkey.Algorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			s := start(t)
			key := keyIn(signingkey.Active, algorithm)
			realm := newRealm(t, "acme", func(r *registry.RealmSettings) {
				r.Keys = []signingkey.Key{key}
			})
			s.registry.Replace([]*registry.Realm{realm}, []*registry.Client{
				newClient(t, "acme", "billing", func(c *registry.Client) {
					c.Scopes, c.Audiences = []string{"orders:read", "stock"}, []string{orders}
				}),
				newClient(t, "acme", "gateway", func(c *registry.Client) { c.Introspects = []string{orders} }),
			}, nil, nil, func(string) bool { return false })
			client := s.direct()

			var set jose.JSONWebKeySet
			served := s.send(t, client, request{method: "GET", path: "/acme/oauth2/jwks"})
			testkit.Do(t, json.Unmarshal([]byte(served.body), &set))
			got := s.send(t, client, request{query: grant, authorization: good})
			parsed := testkit.Value(jose.ParseSignedCompact(accessToken(t, got), []jose.SignatureAlgorithm{jose.SignatureAlgorithm(algorithm)}))(t)
			data := testkit.Value(parsed.Verify(set))(t)
			header := parsed.Signatures[0].Header
			if header.Algorithm != string(algorithm) || header.KeyID != key.ID || header.ExtraHeaders["typ"] != "at+jwt" || len(header.ExtraHeaders) != 1 {
				t.Errorf("header %+v, want only alg %s, kid %s and typ at+jwt", header, algorithm, key.ID)
			}
			var claims map[string]any
			testkit.Do(t, json.Unmarshal(data, &claims))
			id, err := base64.RawURLEncoding.Strict().DecodeString(claims["jti"].(string))
			if err != nil || len(id) != 16 {
				t.Errorf("jti %q has %d bytes (error: %v), want 16", claims["jti"], len(id), err)
			}
			delete(claims, "jti")
			want := map[string]any{
				"iss": "https://" + host + "/acme", "sub": "billing", "client_id": "billing", "client_uid": "acme.billing", "aud": orders,
				"iat": float64(now.Unix()), "exp": float64(now.Unix() + 300), "scope": "orders:read stock",
			}
			testkit.Diff(t, "claims", want, claims)
			checkValid(t, s, accessToken(t, got), true)
		})
	}
}

func TestTokenLifetimeIsTheShorterOne(t *testing.T) {
	tests := map[string]struct {
		client string
		want   time.Duration
	}{
		"lifetime of the realm":          {"plain", 5 * time.Minute},
		"shorter lifetime of the client": {"brief", time.Minute},
		"longer lifetime of the client":  {"long", 5 * time.Minute},
		"client that expires soon":       {"expires", 5 * time.Minute},
	}
	s := startLoaded(t)
	client := s.direct()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := s.send(t, client, request{query: grant, authorization: basic(tc.client, secret)})
			claims := payload(t, accessToken(t, got))
			testkit.Diff(t, "exp - iat", tc.want.Seconds(), claims["exp"].(float64)-claims["iat"].(float64))
			var decoded success
			if err := json.Unmarshal([]byte(got.body), &decoded); err != nil || decoded.ExpiresIn != int64(tc.want.Seconds()) {
				t.Errorf("got expires_in %d (error: %v), want %v", decoded.ExpiresIn, err, tc.want)
			}
		})
	}
}

// The log contains the reason for a server error, but the response must not.
func TestServerErrorReasonIsOnlyLogged(t *testing.T) {
	s := startLoaded(t, func(o *tokenserver.Options) { o.Random = iotest.ErrReader(errors.New("no entropy")) })
	got := s.send(t, s.direct(), request{query: grant, authorization: good})
	checkRejection(t, got, 500, "server_error", "acme")
	if strings.Contains(got.body, "entropy") {
		t.Errorf("body %q contains the reason", got.body)
	}
	s.stop()
	if log := s.log.String(); !strings.Contains(log, "no entropy") {
		t.Errorf("the log does not contain the reason: %s", log)
	}
}

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
	other := request{path: "/other/oauth2/token", body: grant, authorization: basic("billing", secret)}
	expectStatus(t, "other realm", http.StatusOK, s.send(t, client, other))

	realm.SignWith(&active)
	expectStatus(t, "after the key was decrypted", http.StatusOK, s.send(t, client, request{body: grant, authorization: basic("billing", secret)}))
}
