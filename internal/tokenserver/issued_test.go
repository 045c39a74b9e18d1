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
	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// success is a successful answer: these members and no others.
type success struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int64  `json:"expires_in"`
	Scope       string `json:"scope,omitempty"`
}

// checkToken holds a successful answer against what the design says of it; wantAud nil
// means the realm's audiences.
func checkToken(t *testing.T, got answer, wantScope string, wantAud any) map[string]any {
	t.Helper()
	if got.status != http.StatusOK {
		t.Fatalf("status %d with %s, want 200", got.status, got.body)
	}
	checkHeader(t, got, http.StatusOK, "")
	var answered success
	decoder := json.NewDecoder(strings.NewReader(got.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&answered); err != nil {
		t.Fatalf("body %q: %v", got.body, err)
	}
	claims := payload(t, answered.AccessToken)
	scope, _ := claims["scope"].(string)
	if answered.TokenType != "bearer" || answered.Scope != wantScope || scope != wantScope {
		t.Errorf("token_type %q, scope %q, in the token %q; want bearer, %q", answered.TokenType, answered.Scope, scope, wantScope)
	}
	if _, present := claims["scope"]; present != (wantScope != "") {
		t.Errorf("the token has a scope: %t", present)
	}
	if strings.Contains(got.body, `"scope"`) != (wantScope != "") {
		t.Errorf("the answer's scope is there or not: %s", got.body)
	}
	issued, _ := claims["iat"].(float64)
	expires, _ := claims["exp"].(float64)
	if int64(issued) != now.Unix() || int64(expires-issued) != answered.ExpiresIn {
		t.Errorf("iat %v, exp %v, expires_in %d", claims["iat"], claims["exp"], answered.ExpiresIn)
	}
	if wantAud == nil {
		wantAud = []any{orders, stock}
	}
	if diff := cmp.Diff(wantAud, claims["aud"]); diff != "" {
		t.Errorf("aud (-want +got):\n%s", diff)
	}
	if claims["iss"] != "https://"+host+"/acme" {
		t.Errorf("iss %q", claims["iss"])
	}
	return claims
}

func payload(t testing.TB, jwt string) map[string]any {
	t.Helper()
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		t.Fatalf("not a JWT: %q", jwt)
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(data, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

func accessToken(t testing.TB, got answer) string {
	t.Helper()
	var answered success
	if err := json.Unmarshal([]byte(got.body), &answered); err != nil || answered.AccessToken == "" {
		t.Fatalf("no token in %d %q: %v", got.status, got.body, err)
	}
	return answered.AccessToken
}

// A stranger's library verifies tokens of every algorithm with the keys that are served.
func TestIssuedTokensVerify(t *testing.T) {
	for _, algorithm := range signingkey.Algorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			s := start(t)
			key := keyIn(signingkey.Active, algorithm)
			realm := newRealm(t, "acme", func(r *registry.RealmSettings) {
				r.Audiences, r.Keys = []string{orders}, []signingkey.Key{key}
			})
			s.registry.Replace([]*registry.Realm{realm}, []*registry.Client{
				newClient(t, "acme", "billing", func(c *registry.Client) { c.Scopes = []string{"orders:read", "stock"} }),
			}, func(string) bool { return false })
			client := s.clientOf(t, "HTTP/2")

			var set jose.JSONWebKeySet
			served := s.send(t, client, request{method: "GET", path: "/acme/oauth2/jwks"})
			if err := json.Unmarshal([]byte(served.body), &set); err != nil {
				t.Fatal(err)
			}
			got := s.send(t, client, request{query: grant, authorization: good})
			parsed, err := jose.ParseSignedCompact(accessToken(t, got), []jose.SignatureAlgorithm{jose.SignatureAlgorithm(algorithm)})
			if err != nil {
				t.Fatal(err)
			}
			data, err := parsed.Verify(set)
			if err != nil {
				t.Fatal(err)
			}
			header := parsed.Signatures[0].Header
			if header.Algorithm != string(algorithm) || header.KeyID != key.ID || header.ExtraHeaders["typ"] != "at+jwt" || len(header.ExtraHeaders) != 1 {
				t.Errorf("header %+v, want alg %s, kid %s and typ at+jwt alone", header, algorithm, key.ID)
			}
			var claims map[string]any
			if err := json.Unmarshal(data, &claims); err != nil {
				t.Fatal(err)
			}
			id, err := base64.RawURLEncoding.Strict().DecodeString(claims["jti"].(string))
			if err != nil || len(id) != 16 {
				t.Errorf("jti %q holds %d bytes (%v), want 16", claims["jti"], len(id), err)
			}
			delete(claims, "jti")
			want := map[string]any{
				"iss": "https://" + host + "/acme", "sub": "billing", "client_id": "billing", "aud": orders,
				"iat": float64(now.Unix()), "exp": float64(now.Unix() + 300), "scope": "orders:read stock",
			}
			if diff := cmp.Diff(want, claims); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEffectiveLifetime(t *testing.T) {
	tests := map[string]struct {
		client string
		want   time.Duration
	}{
		"the realm's":                   {"plain", 5 * time.Minute},
		"the client's, which is less":   {"brief", time.Minute},
		"never more than the realm's":   {"long", 5 * time.Minute},
		"of a client that soon expires": {"expires", 5 * time.Minute},
	}
	s := startLoaded(t)
	client := s.clientOf(t, "HTTP/1.1")
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := s.send(t, client, request{query: grant, authorization: basic(tc.client, secret)})
			claims := payload(t, accessToken(t, got))
			if lifetime := claims["exp"].(float64) - claims["iat"].(float64); lifetime != tc.want.Seconds() {
				t.Errorf("exp - iat is %v s, want %v", lifetime, tc.want)
			}
			var answered success
			if err := json.Unmarshal([]byte(got.body), &answered); err != nil || answered.ExpiresIn != int64(tc.want.Seconds()) {
				t.Errorf("expires_in %d (%v), want %v", answered.ExpiresIn, err, tc.want)
			}
		})
	}
}

func TestTokenIDsAreUnique(t *testing.T) {
	s := startLoaded(t)
	client := s.clientOf(t, "HTTP/2")
	seen := map[any]bool{}
	for range 200 {
		id := payload(t, accessToken(t, s.send(t, client, request{query: grant, authorization: good})))["jti"]
		if seen[id] {
			t.Fatalf("jti %v came twice", id)
		}
		seen[id] = true
	}
}

// A token that can't be made is our fault and says nothing of why.
func TestServerError(t *testing.T) {
	s := startLoaded(t, func(o *tokenserver.Options) { o.Random = iotest.ErrReader(errors.New("no entropy")) })
	got := s.send(t, s.clientOf(t, "HTTP/1.1"), request{query: grant, authorization: good})
	checkRefusal(t, got, 500, "server_error", "acme")
	if strings.Contains(got.body, "entropy") {
		t.Errorf("%s tells why", got.body)
	}
	s.stop()
	if log := s.log.String(); !strings.Contains(log, "no entropy") {
		t.Errorf("the log doesn't tell why: %s", log)
	}
}
