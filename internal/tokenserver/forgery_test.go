package tokenserver_test

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// Changing, removing or adding any character invalidates a token, even if the result decodes to the
// same bytes.
func TestMutatedTokensAreRejected(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" + ".=+/ \r\n\x00"
	realm := newRealm(t, "acme", nil)
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
}

// These are known attacks on JWT verifiers.
func TestForgedTokensAreRejected(t *testing.T) {
	s := startLoaded(t)
	good := issued(t, s, "billing", "")
	checkValid(t, s, good, true)
	key := keyIn(signingkey.Active, signingkey.ES256)
	own := otherKey(t)
	header := members{"alg": "ES256", "kid": key.ID, "typ": "at+jwt"}
	claims := payload(t, good)
	jwks := s.registry.Realm("acme").JWKS
	var published jose.JSONWebKeySet
	testkit.Do(t, json.Unmarshal(jwks, &published))
	encoded := testkit.Value(x509.MarshalPKIXPublicKey(published.Keys[0].Key))(t)
	hs256 := func(secret []byte) func(string) []byte {
		return func(input string) []byte {
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(input))
			return mac.Sum(nil)
		}
	}
	byKey, byOwn := signer(t, &key), signer(t, &own)
	noSignature := func(string) []byte { return nil }

	for name, forged := range map[string]string{
		"alg none":                    compact(t, changed(header, members{"alg": "none"}), claims, noSignature),
		"alg None with the signature": compact(t, changed(header, members{"alg": "None"}), claims, byKey),
		"no alg":                      compact(t, changed(header, members{"alg": nil}), claims, byKey),
		"HMAC with the public key":    compact(t, changed(header, members{"alg": "HS256"}), claims, hs256(encoded)),
		"HMAC with the key set":       compact(t, changed(header, members{"alg": "HS256"}), claims, hs256(jwks)),
		"another algorithm":           compact(t, changed(header, members{"alg": "ES384"}), claims, byKey),
		"key of the attacker":         compact(t, header, claims, byOwn),
		"unknown kid":                 compact(t, changed(header, members{"kid": "x"}), claims, byOwn),
		"no kid":                      compact(t, changed(header, members{"kid": nil}), claims, byKey),
		"embedded jwk":                compact(t, changed(header, members{"jwk": own.Public()}), claims, byOwn),
		"embedded jwk, no kid":        compact(t, changed(header, members{"kid": nil, "jwk": own.Public()}), claims, byOwn),
		"jku":                         compact(t, changed(header, members{"jku": "https://example.com/jwks"}), claims, byOwn),
		"x5u":                         compact(t, changed(header, members{"x5u": "https://example.com/cert"}), claims, byOwn),
		"unsupported crit":            compact(t, changed(header, members{"crit": []string{"exp"}, "exp": 1}), claims, byKey),
		"another type":                compact(t, changed(header, members{"typ": "JWT"}), claims, byKey),
		"no type":                     compact(t, changed(header, members{"typ": nil}), claims, byKey),
		"zero signature":              compact(t, header, claims, func(string) []byte { return make([]byte, 64) }),
		"no signature":                compact(t, header, claims, noSignature),
		"issuer of another realm":     compact(t, header, changed(claims, members{"iss": "https://" + host + "/frozen"}), byKey),
		"issuer with trailing slash":  compact(t, header, changed(claims, members{"iss": claims["iss"].(string) + "/"}), byKey), //nolint:forcetypeassert // it is a string
		"unknown client":              compact(t, header, changed(claims, members{"client_id": "unknown"}), byKey),
		"no client_id":                compact(t, header, changed(claims, members{"client_id": nil}), byKey),
		"client_id of another client": compact(t, header, changed(claims, members{"client_id": "plain"}), byKey),
		"identity of another client":  compact(t, header, changed(claims, members{"client_uid": "acme.plain"}), byKey),
		"ID instead of the identity":  compact(t, header, changed(claims, members{"client_uid": "billing"}), byKey),
		"no client_uid":               compact(t, header, changed(claims, members{"client_uid": nil}), byKey),
		"empty client_uid":            compact(t, header, changed(claims, members{"client_uid": ""}), byKey),
		"client_uid is null":          compact(t, header, changed(claims, members{"client_uid": json.RawMessage("null")}), byKey),
		"client_uid is an array":      compact(t, header, changed(claims, members{"client_uid": []any{claims["client_uid"]}}), byKey),
		"no exp":                      compact(t, header, changed(claims, members{"exp": nil}), byKey),
		"exp is not a number":         compact(t, header, changed(claims, members{"exp": "9999999999"}), byKey),
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
	header := members{"alg": "ES256", "kid": key.ID, "typ": "at+jwt"}
	checkValid(t, s, jws(t, &key, header, payload(t, issued(t, s, "billing", ""))), true)
}

// A realm must reject tokens from other realms, even if the client IDs match and both realms
// mistakenly use the same key.
func TestTokensOfAnotherRealmAreRejected(t *testing.T) {
	s := startLoaded(t)
	other := newRealm(t, "other", nil)
	s.registry.SetRealm(other)
	s.registry.SetClient(newClient(t, "other", "billing", nil))
	got := s.send(t, s.direct(), request{path: "/other/oauth2/token", query: grant, authorization: good})
	checkValid(t, s, accessToken(t, got), false)
}

func jsonSerialization(jwt string) string {
	p := strings.Split(jwt, ".")
	return `{"protected":"` + p[0] + `","payload":"` + p[1] + `","signature":"` + p[2] + `"}`
}

func swapPayload(jwt, other string) string {
	p, o := strings.Split(jwt, "."), strings.Split(other, ".")
	return p[0] + "." + o[1] + "." + p[2]
}
