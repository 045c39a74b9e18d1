package bearer_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/docs/examples/orders-api/bearer"
)

const audience = "https://orders.acme.example"

func TestRequire(t *testing.T) {
	realm, other := startIssuer(t), startIssuer(t)
	verifier, err := bearer.NewVerifier(oidc.ClientContext(t.Context(), realm.server.Client()), realm.server.URL, audience)
	if err != nil {
		t.Fatal(err)
	}
	api := verifier.Require("orders.read", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := bearer.CallerOf(r.Context())
		fmt.Fprintf(w, "%s has %s", caller.ClientID, caller.Scopes)
	}))
	const invalid = `Bearer error="invalid_token"`
	tests := map[string]struct {
		authorization string
		wantStatus    int
		wantChallenge string
		wantBody      string
	}{
		"valid":                                 {"Bearer " + realm.token(t, at, nil), 200, "", "billing has [orders.read orders.write]"},
		"scheme in lowercase":                   {"bearer " + realm.token(t, at, nil), 200, "", "billing has [orders.read orders.write]"},
		"full media type":                       {"Bearer " + realm.token(t, "application/at+jwt", nil), 200, "", "billing has [orders.read orders.write]"},
		"no header":                             {"", 401, "Bearer", ""},
		"other scheme":                          {"Basic YTpi", 401, "Bearer", ""},
		"empty token":                           {"Bearer ", 401, invalid, ""},
		"not a JWT":                             {"Bearer x", 401, invalid, ""},
		"other realm":                           {"Bearer " + other.token(t, at, nil), 401, invalid, ""},
		"other realm's key":                     {"Bearer " + other.token(t, at, claims{"iss": realm.server.URL}), 401, invalid, ""},
		"symmetric key":                         {"Bearer " + realm.confused(t), 401, invalid, ""},
		"other audience":                        {"Bearer " + realm.token(t, at, claims{"aud": "https://stock.acme.example"}), 401, invalid, ""},
		"expired":                               {"Bearer " + realm.token(t, at, claims{"exp": time.Now().Add(-time.Second).Unix()}), 401, invalid, ""},
		"ID token":                              {"Bearer " + realm.token(t, "JWT", nil), 401, invalid, ""},
		"no type":                               {"Bearer " + realm.token(t, "", nil), 401, invalid, ""},
		"missing scope":                         {"Bearer " + realm.token(t, at, claims{"scope": "orders.write"}), 403, `Bearer error="insufficient_scope", scope="orders.read"`, ""},
		"scope with the required one as prefix": {"Bearer " + realm.token(t, at, claims{"scope": "orders.reads"}), 403, `Bearer error="insufficient_scope", scope="orders.read"`, ""},
		"no scopes":                             {"Bearer " + realm.token(t, at, claims{"scope": nil}), 403, `Bearer error="insufficient_scope", scope="orders.read"`, ""},
		"scope that is a number":                {"Bearer " + realm.token(t, at, claims{"scope": 7}), 401, invalid, ""},
		"bound to a key":                        {"Bearer " + realm.token(t, at, claims{"cnf": map[string]string{"jkt": "x"}}), 401, invalid, ""},
		"acts for another subject":              {"Bearer " + realm.token(t, at, claims{"sub": "ext:corporate:alice"}), 401, invalid, ""},
		"two tokens":                            {"Bearer " + realm.token(t, at, nil) + " x", 401, invalid, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/orders", http.NoBody)
			if tc.authorization != "" {
				r.Header.Set("Authorization", tc.authorization)
			}
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			if w.Code != tc.wantStatus || w.Header().Get("WWW-Authenticate") != tc.wantChallenge {
				t.Errorf("Got status %d and challenge %q, want %d and %q", w.Code, w.Header().Get("WWW-Authenticate"), tc.wantStatus, tc.wantChallenge)
			}
			if tc.wantBody != "" && w.Body.String() != tc.wantBody {
				t.Errorf("Got body %q, want %q", w.Body, tc.wantBody)
			}
		})
	}
}

// TestNewKeyIsLoaded checks that a key added after the verifier was created is loaded when a token
// uses it.
func TestNewKeyIsLoaded(t *testing.T) {
	realm := startIssuer(t)
	ctx := oidc.ClientContext(t.Context(), realm.server.Client())
	verifier, err := bearer.NewVerifier(ctx, realm.server.URL, audience)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := verifier.Verify(ctx, realm.token(t, at, nil)); err != nil {
			t.Error(err)
		}
		realm.addKey(t)
	}
}

func TestIssuerMismatchIsRejected(t *testing.T) {
	realm := startIssuer(t)
	ctx := oidc.ClientContext(t.Context(), realm.server.Client())
	if _, err := bearer.NewVerifier(ctx, realm.server.URL+"/", audience); err == nil {
		t.Error("NewVerifier accepted metadata of another issuer")
	}
}

const at = "at+jwt"

type claims map[string]any

// issuer is a minimal realm for a verifier. It signs with its newest key.
type issuer struct {
	server *httptest.Server
	keys   []jose.JSONWebKey
}

func startIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.addKey(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.server.URL, "jwks_uri": i.server.URL + "/oauth2/jwks"})
	})
	mux.HandleFunc("GET /oauth2/jwks", func(w http.ResponseWriter, _ *http.Request) {
		var public jose.JSONWebKeySet
		for _, key := range i.keys {
			public.Keys = append(public.Keys, key.Public())
		}
		_ = json.NewEncoder(w).Encode(public)
	})
	i.server = httptest.NewTLSServer(mux)
	t.Cleanup(i.server.Close)
	return i
}

func (i *issuer) addKey(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.keys = append(i.keys, jose.JSONWebKey{Key: key, KeyID: rand.Text(), Algorithm: string(jose.ES256), Use: "sig"})
}

// token signs a token with the usual claims, changed as specified. A nil value removes a claim.
func (i *issuer) token(t *testing.T, kind string, changed claims) string {
	t.Helper()
	return sign(t, jose.SigningKey{Algorithm: jose.ES256, Key: i.keys[len(i.keys)-1]}, kind, i.claims(changed))
}

// confused returns a token signed with HMAC, using the public key as the secret.
func (i *issuer) confused(t *testing.T) string {
	t.Helper()
	key := i.keys[len(i.keys)-1]
	public, err := x509.MarshalPKIXPublicKey(key.Public().Key)
	if err != nil {
		t.Fatal(err)
	}
	return sign(t, jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: public, KeyID: key.KeyID}}, at, i.claims(nil))
}

func (i *issuer) claims(changed claims) claims {
	now := time.Now()
	all := claims{
		"iss": i.server.URL, "sub": "billing", "client_id": "billing", "aud": audience, "scope": "orders.read orders.write",
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "jti": rand.Text(),
	}
	for name, value := range changed {
		all[name] = value
		if value == nil {
			delete(all, name)
		}
	}
	return all
}

func sign(t *testing.T, key jose.SigningKey, kind string, all claims) string {
	t.Helper()
	options := &jose.SignerOptions{}
	if kind != "" {
		options = options.WithType(jose.ContentType(kind))
	}
	signer, err := jose.NewSigner(key, options)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(map[string]any(all)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}
