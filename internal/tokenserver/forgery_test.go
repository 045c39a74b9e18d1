package tokenserver_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

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
	checkValid(t, s, compact(t, header, claims, byKey), true) // the unchanged claims in this form

	for name, forged := range map[string]string{
		"alg none":                    compact(t, changed(header, members{"alg": "none"}), claims, noSignature),
		"HMAC with the public key":    compact(t, changed(header, members{"alg": "HS256"}), claims, hs256(encoded)),
		"key of the attacker":         compact(t, header, claims, byOwn),
		"unknown kid":                 compact(t, changed(header, members{"kid": "x"}), claims, byOwn),
		"embedded jwk":                compact(t, changed(header, members{"jwk": own.Public()}), claims, byOwn),
		"jku":                         compact(t, changed(header, members{"jku": "https://example.com/jwks"}), claims, byOwn),
		"unsupported crit":            compact(t, changed(header, members{"crit": []string{"exp"}, "exp": 1}), claims, byKey),
		"another type":                compact(t, changed(header, members{"typ": "JWT"}), claims, byKey),
		"zero signature":              compact(t, header, claims, func(string) []byte { return make([]byte, 64) }),
		"no signature":                compact(t, header, claims, noSignature),
		"issuer of another realm":     compact(t, header, changed(claims, members{"iss": "https://" + host + "/frozen"}), byKey),
		"client_id of another client": compact(t, header, changed(claims, members{"client_id": "plain"}), byKey),
		"identity of another client":  compact(t, header, changed(claims, members{"client_uid": "acme.plain"}), byKey),
		"no client_uid":               compact(t, header, changed(claims, members{"client_uid": nil}), byKey),
		"client_uid is an array":      compact(t, header, changed(claims, members{"client_uid": []any{claims["client_uid"]}}), byKey),
		"no exp":                      compact(t, header, changed(claims, members{"exp": nil}), byKey),
		"JSON serialization":          jsonSerialization(good),
		"only the header":             good[:strings.IndexByte(good, '.')],
		"header and payload":          good[:strings.LastIndexByte(good, '.')],
		"payload of another token":    swapPayload(good, issued(t, s, "plain", "")),
	} {
		t.Run(name, func(t *testing.T) { checkValid(t, s, forged, false) })
	}
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
