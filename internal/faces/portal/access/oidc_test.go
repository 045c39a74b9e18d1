package access_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
)

// issuer is an OpenID Connect issuer with one key. Its metadata lists only the algorithm of this key.
type issuer struct {
	*httptest.Server

	key   jose.JSONWebKey
	nonce string // of the pending sign-in
	// forge returns an ID token instead of one that the key signs; nil: it isn't used.
	forge func(claims map[string]any) string
}

func startIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.Server = httptest.NewTLSServer(i)
	t.Cleanup(i.Close)
	return i
}

// setKey replaces the key. Its ID is the algorithm.
func (i *issuer) setKey(algorithm jose.SignatureAlgorithm, key crypto.Signer) {
	i.key = jose.JSONWebKey{Key: key, KeyID: string(algorithm), Algorithm: string(algorithm)}
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		body = map[string]any{
			"issuer": i.URL, "authorization_endpoint": i.URL, "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{i.key.Algorithm},
		}
	case "/keys":
		body = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.key.Public()}}
	case "/token":
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(i.key.Algorithm), Key: i.key}, nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		claims := map[string]any{"iss": i.URL, "aud": "portal", "sub": "grace", "nonce": i.nonce, "exp": time.Now().Add(time.Hour).Unix()}
		token, err := jwt.Signed(signer).Claims(claims).Serialize()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if i.forge != nil {
			token = i.forge(claims)
		}
		body = map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": token}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// signIn signs in at the issuer, and returns the result.
func (i *issuer) signIn(t *testing.T, p *access.Provider) error {
	t.Helper()
	w := httptest.NewRecorder()
	location := testkit.Value(url.Parse(testkit.Value(p.Begin(t.Context(), w))(t)))(t)
	i.nonce = location.Query().Get("nonce")
	callback := request(w)
	callback.URL.RawQuery = url.Values{"code": {"1"}, "state": {location.Query().Get("state")}}.Encode()
	_, err := p.Complete(t.Context(), httptest.NewRecorder(), callback)
	return err
}

// Users can sign in after their issuer has replaced its key, even by one with an algorithm that its metadata
// didn't list before.
func TestIssuerReplacesKey(t *testing.T) {
	i := startIssuer(t)
	roots := x509.NewCertPool()
	roots.AddCert(i.Certificate())
	p := access.NewProvider(access.ProviderOptions{Issuer: i.URL, ClientID: "portal", Roots: roots}, sessions(t, key('a'), time.Now()))
	for algorithm, key := range map[jose.SignatureAlgorithm]crypto.Signer{
		jose.RS256: testkit.Value(rsa.GenerateKey(rand.Reader, 2048))(t),
		jose.ES256: testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t),
		jose.ES384: testkit.Value(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t),
	} {
		i.setKey(algorithm, key)
		if err := i.signIn(t, p); err != nil {
			t.Errorf("Complete() with %s: %v", algorithm, err)
		}
	}
}

// Whatever the metadata lists, a token that anyone who knows the public key can make is rejected.
func TestForgedToken(t *testing.T) {
	i := startIssuer(t)
	i.setKey(jose.RS256, testkit.Value(rsa.GenerateKey(rand.Reader, 2048))(t))
	public := testkit.Value(i.key.Public().MarshalJSON())(t)
	roots := x509.NewCertPool()
	roots.AddCert(i.Certificate())
	p := access.NewProvider(access.ProviderOptions{Issuer: i.URL, ClientID: "portal", Roots: roots}, sessions(t, key('a'), time.Now()))
	for name, forge := range map[string]func(claims map[string]any) string{
		"HS256": func(claims map[string]any) string {
			signer := testkit.Value(jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: public}, nil))(t)
			return testkit.Value(jwt.Signed(signer).Claims(claims).Serialize())(t)
		},
		"none": func(claims map[string]any) string {
			encode := base64.RawURLEncoding.EncodeToString
			return encode([]byte(`{"alg":"none"}`)) + "." + encode(testkit.Value(json.Marshal(claims))(t)) + "."
		},
	} {
		i.forge = forge
		if err := i.signIn(t, p); !errors.Is(err, access.ErrIssuer) {
			t.Errorf("%s: got %v, want ErrIssuer", name, err)
		}
	}
}
