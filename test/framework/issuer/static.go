package issuer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Static is an issuer of workload tokens whose keys are part of the Realm, so it serves nothing.
type Static struct {
	name   string
	url    string
	key    jose.JSONWebKey
	signer jose.Signer
}

// NewStatic returns an issuer with a new key. Realms refer to it by name.
func NewStatic(t testing.TB, name, url string) *Static {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: name, Algorithm: string(jose.ES256), Use: "sig"}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	return &Static{name: name, url: url, key: key, signer: signer}
}

// URL returns the "iss" claim of the tokens.
func (s *Static) URL() string { return s.url }

// Trusted returns the entry for a Realm.
func (s *Static) Trusted(t testing.TB) v1beta1.TrustedIssuer {
	t.Helper()
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{s.key.Public()}})
	if err != nil {
		t.Fatal(err)
	}
	return v1beta1.TrustedIssuer{Name: s.name, Issuer: v1beta1.IssuerURL(s.url), Keys: v1beta1.IssuerKeys{JWKS: v1beta1.IssuerJWKS(keys)}}
}

// Token returns a token that is valid for an hour, with additional claims.
func (s *Static) Token(t testing.TB, audience, subject string, claims map[string]any) string {
	t.Helper()
	all := map[string]any{
		"iss": s.url, "aud": audience, "sub": subject, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(all, claims)
	token, err := jwt.Signed(s.signer).Claims(all).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}
