package clientassertion_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 500_000_000, time.UTC)

const (
	issuer   = "https://api.example.com/acme"
	endpoint = issuer + "/oauth2/token"
)

// keys returns one key for each algorithm. All tests share them, because RSA keys are slow to
// generate.
var keys = sync.OnceValue(func() map[signingkey.Algorithm]signingkey.Key {
	all := map[signingkey.Algorithm]signingkey.Key{}
	for _, algorithm := range signingkey.Algorithms {
		key, err := signingkey.Generate(algorithm, now, rand.Reader)
		if err != nil {
			panic(err)
		}
		all[algorithm] = key
	}
	return all
})

// members holds header parameters or claims. Nil values are omitted.
type members map[string]any

// encode applies change to defaults and returns the encoded result.
func encode(t testing.TB, defaults members, change members) string {
	t.Helper()
	all := maps.Clone(defaults)
	maps.Copy(all, change)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// sign returns an assertion for the client "billing". It is valid except for the given changes to
// the header and claims.
func sign(t testing.TB, key signingkey.Key, header, claims members) string {
	t.Helper()
	return signText(t, key, encode(t, members{"alg": string(key.Algorithm), "kid": key.ID, "typ": "JWT"}, header),
		encode(t, members{
			"iss": "billing", "sub": "billing", "aud": issuer, "jti": "one",
			"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		}, claims))
}

// signText signs encoded parts without validating them.
func signText(t testing.TB, key signingkey.Key, header, claims string) string {
	t.Helper()
	signature, err := key.Signer().Sign(nil, []byte(header+"."+claims))
	if err != nil {
		t.Fatal(err)
	}
	return header + "." + claims + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func parse(t testing.TB, compact string) *clientassertion.Assertion {
	t.Helper()
	a, err := clientassertion.Parse(compact)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestVerify(t *testing.T) {
	for algorithm, key := range keys() {
		t.Run(string(algorithm), func(t *testing.T) {
			a := parse(t, sign(t, key, nil, nil))
			if a.Algorithm != algorithm || a.KeyID != key.ID || a.Claims.Subject != "billing" {
				t.Errorf("parsed as %+v", a)
			}
			if err := a.Verify(key.Public()); err != nil {
				t.Error(err)
			}
			for other, key := range keys() {
				err := a.Verify(key.Public())
				if want := other == algorithm; (err == nil) != want {
					t.Errorf("with the %s key: error %v, want valid: %t", other, err, want)
				}
			}
		})
	}
}

// An assertion is rejected if any character is changed, inserted or removed.
func TestRejectsMutations(t *testing.T) {
	for algorithm, key := range keys() {
		t.Run(string(algorithm), func(t *testing.T) {
			good := sign(t, key, nil, nil)
			rejects := func(mutated string) {
				t.Helper()
				a, err := clientassertion.Parse(mutated)
				if err == nil && a.Verify(key.Public()) == nil {
					t.Errorf("accepted %s instead of %s", mutated, good)
				}
			}
			for i := range good {
				rejects(good[:i] + string(good[i]^1) + good[i+1:])
				rejects(good[:i] + good[i+1:])
				for _, c := range []string{".", "=", "\n", " "} { // characters that a lenient decoder ignores
					rejects(good[:i] + c + good[i:])
				}
			}
			rejects(good + "\n")
		})
	}
}

func TestParseRejects(t *testing.T) {
	key := keys()[signingkey.ES256]
	raw := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	const header, claims = `{"alg":"ES256"}`, `{"sub":"billing"}`
	for name, tc := range map[string]struct {
		text    string
		wantErr error
	}{
		"empty":              {"", jws.ErrMalformed},
		"not a JWS":          {"canary", jws.ErrMalformed},
		"two parts":          {raw(header) + "." + raw(claims), jws.ErrMalformed},
		"four parts":         {sign(t, key, nil, nil) + ".", jws.ErrMalformed},
		"JSON serialization": {`{"payload":"e30","signatures":[]}`, jws.ErrMalformed},
		"header is not JSON": {signText(t, key, raw("canary"), raw(claims)), jws.ErrMalformed},
		"header is not an object": {
			signText(t, key, raw(`["ES256"]`), raw(claims)), jws.ErrMalformed,
		},
		"no algorithm":            {sign(t, key, members{"alg": nil}, nil), jws.ErrMalformed},
		"two algorithms":          {signText(t, key, raw(`{"alg":"ES256","alg":"RS256"}`), raw(claims)), jws.ErrMalformed},
		"algorithm in upper case": {signText(t, key, raw(`{"ALG":"ES256"}`), raw(claims)), jws.ErrMalformed},
		"claims are not JSON":     {signText(t, key, raw(header), raw("canary")), jws.ErrMalformed},
		"duplicate claim":         {signText(t, key, raw(header), raw(`{"sub":"a","sub":"b"}`)), jws.ErrMalformed},
		"audience is a number":    {sign(t, key, nil, members{"aud": []int{1}}), jws.ErrMalformed},
		"exp is text":             {sign(t, key, nil, members{"exp": "tomorrow"}), jws.ErrMalformed},
		"exp out of range":        {sign(t, key, nil, members{"exp": 1e300}), jws.ErrMalformed},
		"subject is a list":       {sign(t, key, nil, members{"sub": []string{"billing"}}), jws.ErrMalformed},
		"critical parameters":     {sign(t, key, members{"crit": []string{"exp"}, "exp": 1}, nil), jws.ErrCritical},
		"critical b64":            {sign(t, key, members{"crit": []string{"b64"}, "b64": false}, nil), jws.ErrCritical},
		"empty crit":              {sign(t, key, members{"crit": []string{}}, nil), jws.ErrCritical},
		"access token":            {sign(t, key, members{"typ": "at+jwt"}, nil), clientassertion.ErrType},
		"access token, full type": {sign(t, key, members{"typ": "application/AT+JWT"}, nil), clientassertion.ErrType},
		"proof of possession":     {sign(t, key, members{"typ": "dpop+jwt"}, nil), clientassertion.ErrType},
		"Base64 with padding":     {raw(header) + "=." + raw(claims) + ".AAAA", jws.ErrMalformed},
		"standard Base64":         {raw(header) + "." + raw(claims) + ".+/AA", jws.ErrMalformed},
		"line break in a part":    {raw(header) + "." + raw(claims) + ".AA\nAA", jws.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := clientassertion.Parse(tc.text); !errors.Is(err, tc.wantErr) {
				t.Errorf("error %v, want %v", err, tc.wantErr)
			} else if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error repeats input: %v", err)
			}
		})
	}
}

// Keys and key URLs in the header are ignored.
func TestIgnoresKeysInHeader(t *testing.T) {
	key := keys()[signingkey.ES256]
	attacker, err := signingkey.Generate(signingkey.ES256, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, header := range map[string]members{
		"jwk":       {"jwk": attacker.Public()},
		"jku":       {"jku": "https://example.com/jwks"},
		"x5u":       {"x5u": "https://example.com/cert"},
		"x5c":       {"x5c": []string{"canary"}},
		"malformed": {"jwk": "canary", "x5c": 1, "b64": false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := parse(t, sign(t, key, header, nil)).Verify(key.Public()); err != nil {
				t.Errorf("signed with the client's key: %v", err)
			}
			header := maps.Clone(header)
			header["kid"] = key.ID
			if err := parse(t, sign(t, attacker, header, nil)).Verify(key.Public()); !errors.Is(err, jws.ErrSignature) {
				t.Errorf("signed with the attacker's key: error %v, want %v", err, jws.ErrSignature)
			}
		})
	}
}

// Each key has one algorithm. The header can't select a different one, such as none or a MAC that
// uses the public key as the secret.
func TestAlgorithmConfusion(t *testing.T) {
	for algorithm, key := range keys() {
		for _, claimed := range []string{"none", "None", "HS256", "HS384", "ES256", "ES384", "EdDSA", "RS256", "PS256", "RS512"} {
			if claimed == string(algorithm) {
				continue
			}
			a := parse(t, sign(t, key, members{"alg": claimed}, nil))
			if err := a.Verify(key.Public()); !errors.Is(err, jws.ErrKey) {
				t.Errorf("Verify of %s with an %s key: error %v, want %v", claimed, algorithm, err, jws.ErrKey)
			}
			if _, err := a.VerifyWithAny([]signingkey.PublicKey{key.Public()}); !errors.Is(err, jws.ErrKey) {
				t.Errorf("VerifyWithAny of %s with an %s key: error %v, want %v", claimed, algorithm, err, jws.ErrKey)
			}
		}
		unsigned := strings.TrimRight(sign(t, key, members{"alg": "none"}, nil), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
		if a := parse(t, unsigned); a.Verify(key.Public()) == nil {
			t.Errorf("accepted an unsigned assertion with an %s key", algorithm)
		}
	}
}

// Parsed assertions have three parts. Verification succeeds only if they were signed by one of the
// keys.
func FuzzParse(f *testing.F) {
	for _, key := range keys() {
		f.Add(sign(f, key, nil, nil))
		f.Add(sign(f, key, members{"crit": []string{"b64"}, "jwk": key.Public()}, members{"aud": []string{issuer, endpoint}}))
	}
	f.Add("e30.e30.")
	f.Add("..")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := clientassertion.Parse(text)
		if err != nil {
			return
		}
		if strings.Count(text, ".") != 2 || a.Algorithm == "" {
			t.Fatalf("parsed as %+v", a)
		}
		for _, key := range keys() {
			if a.Verify(key.Public()) != nil {
				continue
			}
			if header, _, _ := strings.Cut(text, "."); !strings.HasPrefix(sign(t, key, nil, nil), header) {
				t.Fatalf("verified %q, which was not signed", text)
			}
		}
	})
}
