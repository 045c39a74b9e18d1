package tokenserver_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// No character of a good token can be changed, left out or added: not even one that
// decodes to the same bytes.
func TestNoCharacterOfATokenCanBeChanged(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" + ".=+/ \r\n\x00"
	for _, algorithm := range signingkey.Algorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			realm := newRealm(t, "acme", withKeys(algorithm))
			reg := registry.New()
			reg.SetRealm(realm)
			reg.SetClient(newClient(t, "acme", "billing", nil))
			good, _, err := realm.Signer.Sign(token.Claims{
				Issuer: realm.Issuer, ClientID: "billing", Audience: realm.Audiences, IssuedAt: now, Lifetime: realm.TokenLifetime,
			}, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := realm.Verify(good, now); err != nil {
				t.Fatal(err)
			}
			refused := func(forged string) {
				if _, _, err := realm.Verify(forged, now); err == nil {
					t.Errorf("%q is taken for %q", forged, good)
				}
			}
			for at := range good {
				if algorithm == signingkey.ES384 && at%16 != 0 && at != len(good)-1 {
					continue // crypto/ecdsa takes a millisecond for each on P-384
				}
				// Each character at the end, where bits are left over, and a sample of them before.
				for i := range alphabet {
					if alphabet[i] != good[at] && (i%7 == at%7 || strings.HasSuffix(good[at+1:], ".") || at == len(good)-1) {
						refused(good[:at] + alphabet[i:i+1] + good[at+1:])
					}
				}
				refused(good[:at] + good[at+1:])
				refused(good[:at] + "\n" + good[at:])
			}
			refused(good + "=")
			refused(good + ".")
			refused(good + "." + good)
		})
	}
}

// What others tried on verifiers: none of it reaches a decision here, over HTTP, at verify
// and at introspection.
func TestForgedTokensAreRefused(t *testing.T) {
	s := startLoaded(t)
	good := issued(t, s, "billing", "")
	holds(t, s, good, true)
	key := keyIn(signingkey.Active, signingkey.ES256)
	private := privateOf(t, key)
	public := private.Public().(*ecdsa.PublicKey) //nolint:forcetypeassert // ES256 has no other
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	header := map[string]any{"alg": "ES256", "kid": key.ID, "typ": "at+jwt"}
	claims := payload(t, good)
	with := func(m map[string]any, more map[string]any) map[string]any {
		c := maps.Clone(m)
		maps.Copy(c, more)
		return c
	}
	without := func(m map[string]any, name string) map[string]any {
		c := maps.Clone(m)
		delete(c, name)
		return c
	}
	encoded, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	hs256 := func(secret []byte) func(string) []byte {
		return func(input string) []byte {
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(input))
			return mac.Sum(nil)
		}
	}
	byKey, byOwn := signES256(t, private), signES256(t, own)
	nothing := func(string) []byte { return nil }

	for name, forged := range map[string]string{
		"alg none":                      compact(t, with(header, map[string]any{"alg": "none"}), claims, nothing),
		"alg None with the signature":   compact(t, with(header, map[string]any{"alg": "None"}), claims, byKey),
		"no alg":                        compact(t, without(header, "alg"), claims, byKey),
		"HMAC with the public key":      compact(t, with(header, map[string]any{"alg": "HS256"}), claims, hs256(encoded)),
		"HMAC with the key set":         compact(t, with(header, map[string]any{"alg": "HS256"}), claims, hs256(s.registry.Realm("acme").JWKS)),
		"another algorithm's name":      compact(t, with(header, map[string]any{"alg": "ES384"}), claims, byKey),
		"a key of one's own":            compact(t, header, claims, byOwn),
		"a foreign kid":                 compact(t, with(header, map[string]any{"kid": "x"}), claims, byOwn),
		"no kid":                        compact(t, without(header, "kid"), claims, byKey),
		"an embedded jwk":               compact(t, with(header, map[string]any{"jwk": jose.JSONWebKey{Key: own.Public()}}), claims, byOwn),
		"an embedded jwk, without kid":  compact(t, with(without(header, "kid"), map[string]any{"jwk": jose.JSONWebKey{Key: own.Public()}}), claims, byOwn),
		"a jku":                         compact(t, with(header, map[string]any{"jku": "https://example.com/jwks"}), claims, byOwn),
		"an x5u":                        compact(t, with(header, map[string]any{"x5u": "https://example.com/cert"}), claims, byOwn),
		"a crit that is not understood": compact(t, with(header, map[string]any{"crit": []string{"exp"}, "exp": 1}), claims, byKey),
		"another type":                  compact(t, with(header, map[string]any{"typ": "JWT"}), claims, byKey),
		"no type":                       compact(t, without(header, "typ"), claims, byKey),
		"zeros for a signature":         compact(t, header, claims, func(string) []byte { return make([]byte, 64) }),
		"no signature":                  compact(t, header, claims, nothing),
		"another realm's issuer":        compact(t, header, with(claims, map[string]any{"iss": "https://" + host + "/frozen"}), byKey),
		"the issuer with a slash":       compact(t, header, with(claims, map[string]any{"iss": claims["iss"].(string) + "/"}), byKey), //nolint:forcetypeassert // it is one
		"a client that the realm lacks": compact(t, header, with(claims, map[string]any{"client_id": "nobody"}), byKey),
		"no client":                     compact(t, header, without(claims, "client_id"), byKey),
		"no end":                        compact(t, header, without(claims, "exp"), byKey),
		"an end that is no number":      compact(t, header, with(claims, map[string]any{"exp": "9999999999"}), byKey),
		"JSON serialization":            jsonSerialization(good),
		"the payload of another":        swapPayload(good, issued(t, s, "plain", "")),
		"a token in quotes":             `"` + good + `"`,
		"empty parts":                   "..",
	} {
		t.Run(name, func(t *testing.T) { holds(t, s, forged, false) })
	}
}

// A token of one realm is none of another, even where both have the same client and, by an
// operator's mistake, the same key.
func TestAnotherRealmsTokenIsRefused(t *testing.T) {
	s := startLoaded(t)
	other := newRealm(t, "other", nil)
	s.registry.SetRealm(other)
	s.registry.SetClient(newClient(t, "other", "billing", nil))
	got := s.send(t, s.clientOf(t, "HTTP/1.1"), request{path: "/other/oauth2/token", query: grant, authorization: good})
	holds(t, s, accessToken(t, got), false)
}

func compact(t testing.TB, header, claims map[string]any, sign func(input string) []byte) string {
	t.Helper()
	part := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(data)
	}
	input := part(header) + "." + part(claims)
	return input + "." + base64.RawURLEncoding.EncodeToString(sign(input))
}

func signES256(t testing.TB, key *ecdsa.PrivateKey) func(string) []byte {
	return func(input string) []byte {
		digest := sha256.Sum256([]byte(input))
		r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
		if err != nil {
			t.Fatal(err)
		}
		signature := make([]byte, 64)
		r.FillBytes(signature[:32])
		s.FillBytes(signature[32:])
		return signature
	}
}

// privateOf takes a realm's key out of what its record holds.
func privateOf(t testing.TB, key signingkey.Key) *ecdsa.PrivateKey {
	t.Helper()
	data, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	var stored struct {
		JWK jose.JSONWebKey `json:"jwk"`
	}
	if err := json.Unmarshal(data, &stored); err != nil {
		t.Fatal(err)
	}
	private, ok := stored.JWK.Key.(crypto.Signer).(*ecdsa.PrivateKey)
	if !ok {
		t.Fatal("no ECDSA key")
	}
	return private
}

func jsonSerialization(jwt string) string {
	p := strings.Split(jwt, ".")
	return `{"protected":"` + p[0] + `","payload":"` + p[1] + `","signature":"` + p[2] + `"}`
}

func swapPayload(jwt, other string) string {
	p, o := strings.Split(jwt, "."), strings.Split(other, ".")
	return p[0] + "." + o[1] + "." + p[2]
}
