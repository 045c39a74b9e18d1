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

// Changing, removing or adding any character invalidates a token, even if the result decodes to the
// same bytes.
func TestMutatedTokensAreRejected(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" + ".=+/ \r\n\x00"
	for _, algorithm := range signingkey.Algorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			realm := newRealm(t, "acme", withKeys(algorithm))
			reg := registry.New()
			reg.SetRealm(realm)
			reg.SetClient(newClient(t, "acme", "billing", nil))
			good, _, err := realm.Signer().Sign(token.Claims{
				Issuer: realm.Issuer, ClientID: "billing", Identity: "acme.billing", Audience: []string{orders}, IssuedAt: now, Lifetime: realm.TokenLifetime,
			}, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := realm.Verify(good, now); err != nil {
				t.Fatal(err)
			}
			reject := func(forged string) {
				if _, _, err := realm.Verify(forged, now); err == nil {
					t.Errorf("%q is accepted instead of %q", forged, good)
				}
			}
			for at := range good {
				if algorithm == signingkey.ES384 && at%16 != 0 && at != len(good)-1 {
					continue // verification takes a millisecond on P-384
				}
				// Try every character at the end of each part, where the encoding has unused bits,
				// and a sample of the characters elsewhere.
				for i := range alphabet {
					if alphabet[i] != good[at] && (i%7 == at%7 || strings.HasSuffix(good[at+1:], ".") || at == len(good)-1) {
						reject(good[:at] + alphabet[i:i+1] + good[at+1:])
					}
				}
				reject(good[:at] + good[at+1:])
				reject(good[:at] + "\n" + good[at:])
			}
			reject(good + "=")
			reject(good + ".")
			reject(good + "." + good)
		})
	}
}

// These are known attacks on JWT verifiers.
func TestForgedTokensAreRejected(t *testing.T) {
	s := startLoaded(t)
	good := issued(t, s, "billing", "")
	checkValid(t, s, good, true)
	key := keyIn(signingkey.Active, signingkey.ES256)
	private := privateOf(t, key)
	public := private.Public().(*ecdsa.PublicKey) //nolint:forcetypeassert // ES256 keys are ECDSA keys
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
	noSignature := func(string) []byte { return nil }

	for name, forged := range map[string]string{
		"alg none":                    compact(t, with(header, map[string]any{"alg": "none"}), claims, noSignature),
		"alg None with the signature": compact(t, with(header, map[string]any{"alg": "None"}), claims, byKey),
		"no alg":                      compact(t, without(header, "alg"), claims, byKey),
		"HMAC with the public key":    compact(t, with(header, map[string]any{"alg": "HS256"}), claims, hs256(encoded)),
		"HMAC with the key set":       compact(t, with(header, map[string]any{"alg": "HS256"}), claims, hs256(s.registry.Realm("acme").JWKS)),
		"another algorithm":           compact(t, with(header, map[string]any{"alg": "ES384"}), claims, byKey),
		"key of the attacker":         compact(t, header, claims, byOwn),
		"unknown kid":                 compact(t, with(header, map[string]any{"kid": "x"}), claims, byOwn),
		"no kid":                      compact(t, without(header, "kid"), claims, byKey),
		"embedded jwk":                compact(t, with(header, map[string]any{"jwk": jose.JSONWebKey{Key: own.Public()}}), claims, byOwn),
		"embedded jwk, no kid":        compact(t, with(without(header, "kid"), map[string]any{"jwk": jose.JSONWebKey{Key: own.Public()}}), claims, byOwn),
		"jku":                         compact(t, with(header, map[string]any{"jku": "https://example.com/jwks"}), claims, byOwn),
		"x5u":                         compact(t, with(header, map[string]any{"x5u": "https://example.com/cert"}), claims, byOwn),
		"unsupported crit":            compact(t, with(header, map[string]any{"crit": []string{"exp"}, "exp": 1}), claims, byKey),
		"another type":                compact(t, with(header, map[string]any{"typ": "JWT"}), claims, byKey),
		"no type":                     compact(t, without(header, "typ"), claims, byKey),
		"zero signature":              compact(t, header, claims, func(string) []byte { return make([]byte, 64) }),
		"no signature":                compact(t, header, claims, noSignature),
		"issuer of another realm":     compact(t, header, with(claims, map[string]any{"iss": "https://" + host + "/frozen"}), byKey),
		"issuer with trailing slash":  compact(t, header, with(claims, map[string]any{"iss": claims["iss"].(string) + "/"}), byKey), //nolint:forcetypeassert // it is a string
		"unknown client":              compact(t, header, with(claims, map[string]any{"client_id": "unknown"}), byKey),
		"no client_id":                compact(t, header, without(claims, "client_id"), byKey),
		"client_id of another client": compact(t, header, with(claims, map[string]any{"client_id": "plain"}), byKey),
		"identity of another client":  compact(t, header, with(claims, map[string]any{"client_uid": "acme.plain"}), byKey),
		"ID instead of the identity":  compact(t, header, with(claims, map[string]any{"client_uid": "billing"}), byKey),
		"no client_uid":               compact(t, header, without(claims, "client_uid"), byKey),
		"empty client_uid":            compact(t, header, with(claims, map[string]any{"client_uid": ""}), byKey),
		"client_uid is null":          compact(t, header, with(claims, map[string]any{"client_uid": nil}), byKey),
		"client_uid is an array":      compact(t, header, with(claims, map[string]any{"client_uid": []any{claims["client_uid"]}}), byKey),
		"no exp":                      compact(t, header, without(claims, "exp"), byKey),
		"exp is not a number":         compact(t, header, with(claims, map[string]any{"exp": "9999999999"}), byKey),
		"JSON serialization":          jsonSerialization(good),
		"payload of another token":    swapPayload(good, issued(t, s, "plain", "")),
		"quoted token":                `"` + good + `"`,
		"empty parts":                 "..",
	} {
		t.Run(name, func(t *testing.T) { checkValid(t, s, forged, false) })
	}
}

// The corpus signs with the realm's key, so that only the claims can be wrong. The unchanged claims
// must be valid in this form.
func TestClaimsOfTheCorpusAreAccepted(t *testing.T) {
	s := startLoaded(t)
	key := keyIn(signingkey.Active, signingkey.ES256)
	header := map[string]any{"alg": "ES256", "kid": key.ID, "typ": "at+jwt"}
	checkValid(t, s, compact(t, header, payload(t, issued(t, s, "billing", "")), signES256(t, privateOf(t, key))), true)
}

// A realm must reject tokens from other realms, even if the client IDs match and both realms
// mistakenly use the same key.
func TestTokensOfAnotherRealmAreRejected(t *testing.T) {
	s := startLoaded(t)
	other := newRealm(t, "other", nil)
	s.registry.SetRealm(other)
	s.registry.SetClient(newClient(t, "other", "billing", nil))
	got := s.send(t, s.clientOf(t, "HTTP/1.1"), request{path: "/other/oauth2/token", query: grant, authorization: good})
	checkValid(t, s, accessToken(t, got), false)
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

// privateOf extracts the private key from the JSON form of a signing key.
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
		t.Fatal("the key is not an ECDSA key")
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
