package signingkey_test

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

func TestParsePublicKey(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, key signingkey.Key) {
		hasTwo := key.Algorithm == signingkey.RS256 || key.Algorithm == signingkey.PS256
		for name, tc := range map[string]struct {
			change   map[string]any // members to set; nil deletes a member
			rejected bool
		}{
			"unchanged":       {},
			"no ID and use":   {change: map[string]any{"kid": nil, "use": nil}},
			"no algorithm":    {change: map[string]any{"alg": nil}, rejected: hasTwo},
			"unknown members": {change: map[string]any{"ext": true, "key_ops": []string{"verify"}}},
			"other algorithm": {change: map[string]any{"alg": "HS256"}, rejected: true},
			"for encryption":  {change: map[string]any{"use": "enc"}, rejected: true},
			"private member":  {change: map[string]any{"p": "AAAA"}, rejected: true},
			"other type":      {change: map[string]any{"kty": "oct", "k": "AAAA"}, rejected: true},
		} {
			t.Run(name, func(t *testing.T) {
				var members map[string]any
				testkit.Do(t, json.Unmarshal(marshal(t, key.Public()), &members))
				maps.Copy(members, tc.change)
				maps.DeleteFunc(members, func(_ string, value any) bool { return value == nil })
				got, err := signingkey.ParsePublicKey(marshal(t, members))
				if rejected := errors.Is(err, signingkey.ErrKey); rejected != tc.rejected || rejected == (err == nil) {
					t.Fatalf("error %v, want the key rejected: %t", err, tc.rejected)
				}
				if err == nil && got.Algorithm() != key.Algorithm {
					t.Errorf("algorithm %s, want %s", got.Algorithm(), key.Algorithm)
				}
			})
		}
	})
}

// A private key is rejected, and the error doesn't repeat it.
func TestParsePublicKeyRejectsPrivateKeys(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, key signingkey.Key) {
		var stored struct {
			JWK map[string]string `json:"jwk"`
		}
		testkit.Do(t, json.Unmarshal(marshal(t, key), &stored))
		_, err := signingkey.ParsePublicKey(marshal(t, stored.JWK))
		if !errors.Is(err, signingkey.ErrPrivateKey) {
			t.Fatalf("error %v, want %v", err, signingkey.ErrPrivateKey)
		}
		if strings.Contains(err.Error(), stored.JWK["d"]) {
			t.Errorf("the error repeats the private key: %v", err)
		}
	})
}

func TestParsePublicKeyLimitsRSA(t *testing.T) {
	for name, tc := range map[string]struct {
		bits     int
		exponent string
		want     bool
	}{
		"shortest":          {2048, "AQAB", true},
		"longest":           {4096, "AQAB", true},
		"too short":         {2047, "AQAB", false},
		"too long":          {4097, "AQAB", false},
		"smallest exponent": {2048, "Aw", true},
		"even exponent":     {2048, "AQAA", false},
		"exponent of one":   {2048, "AQ", false},
	} {
		t.Run(name, func(t *testing.T) {
			modulus := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(tc.bits)), big.NewInt(1))
			_, err := signingkey.ParsePublicKey(marshal(t, map[string]any{
				"kty": "RSA", "alg": "RS256", "n": base64.RawURLEncoding.EncodeToString(modulus.Bytes()), "e": tc.exponent,
			}))
			if (err == nil) != tc.want {
				t.Errorf("error %v, want the key accepted: %t", err, tc.want)
			}
		})
	}
}

// A key that a third party registers is accepted as a JWK and as PEM, under the ID of the
// registration. A JWK must not contradict the registration.
func TestImport(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, key signingkey.Key) {
		jwk := func(change map[string]any) []byte {
			var members map[string]any
			testkit.Do(t, json.Unmarshal(marshal(t, key.Public()), &members))
			maps.Copy(members, change)
			maps.DeleteFunc(members, func(_ string, value any) bool { return value == nil })
			return marshal(t, members)
		}
		block := pemOf(t, jwk(nil))
		hasTwo := key.Algorithm == signingkey.RS256 || key.Algorithm == signingkey.PS256
		for name, tc := range map[string]struct {
			imported func([]byte, string, signingkey.Algorithm) (signingkey.PublicKey, error)
			data     []byte
			of       signingkey.Algorithm
			rejected bool
		}{
			"JWK with its algorithm":        {signingkey.ImportJWK, jwk(map[string]any{"kid": "own"}), key.Algorithm, false},
			"JWK with only the key":         {signingkey.ImportJWK, jwk(map[string]any{"kid": nil, "alg": nil, "use": nil}), key.Algorithm, false},
			"JWK without an algorithm":      {signingkey.ImportJWK, jwk(map[string]any{"kid": nil, "alg": nil}), "", hasTwo},
			"JWK with another kid":          {signingkey.ImportJWK, jwk(nil), "", true},
			"JWK with another algorithm":    {signingkey.ImportJWK, jwk(map[string]any{"kid": nil}), "HS256", true},
			"two JWKs":                      {signingkey.ImportJWK, append(jwk(nil), jwk(nil)...), key.Algorithm, true},
			"PEM":                           {signingkey.ImportPEM, block, key.Algorithm, false},
			"PEM with line breaks around":   {signingkey.ImportPEM, []byte("\n" + string(block) + "\n\n"), key.Algorithm, false},
			"PEM without an algorithm":      {signingkey.ImportPEM, block, "", hasTwo},
			"PEM of something else":         {signingkey.ImportPEM, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("canary")}), key.Algorithm, true},
			"two PEM blocks":                {signingkey.ImportPEM, append(bytes.Clone(block), block...), key.Algorithm, true},
			"PEM of another type":           {signingkey.ImportPEM, bytes.ReplaceAll(block, []byte("PUBLIC KEY"), []byte("CERTIFICATE")), key.Algorithm, true},
			"private key in front of PEM":   {signingkey.ImportPEM, append([]byte("-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n"), block...), key.Algorithm, true},
			"private member with an escape": {signingkey.ImportJWK, bytes.Replace(jwk(map[string]any{"kid": nil}), []byte(`{`), []byte(`{"\u0064":"canary",`), 1), key.Algorithm, true},
		} {
			t.Run(name, func(t *testing.T) {
				got, err := tc.imported(tc.data, "own", tc.of)
				if errors.Is(err, signingkey.ErrKey) != tc.rejected || (err != nil) != tc.rejected {
					t.Fatalf("error %v, want the key rejected: %t", err, tc.rejected)
				}
				if strings.Contains(name, "private") && !errors.Is(err, signingkey.ErrPrivateKey) {
					t.Errorf("error %v, want %v", err, signingkey.ErrPrivateKey)
				}
				if err != nil {
					if strings.Contains(err.Error(), "canary") {
						t.Errorf("the error repeats the key: %v", err)
					}
					return
				}
				if got.ID() != "own" || got.Algorithm() != key.Algorithm {
					t.Errorf("imported as %s %s, want own %s", got.ID(), got.Algorithm(), key.Algorithm)
				}
				input, signature := split(t, sign(t, key, "payload"))
				testkit.Do(t, got.Verify(input, signature))
			})
		}
	})
}

// pemOf returns the PEM block of the key in a JWK.
func pemOf(t testing.TB, jwk []byte) []byte {
	t.Helper()
	var key jose.JSONWebKey
	testkit.Do(t, json.Unmarshal(jwk, &key))
	der := testkit.Value(x509.MarshalPKIXPublicKey(key.Key))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// FuzzImport feeds the same input to both parsers. An imported key has the registered ID and a
// supported algorithm, and is encoded without private members.
func FuzzImport(f *testing.F) {
	for algorithm, keys := range pool() {
		jwk := marshal(f, keys[0].Public())
		f.Add(jwk, string(algorithm))
		f.Add(jwk, "")
		f.Add(pemOf(f, jwk), string(algorithm))
		f.Add(marshal(f, keys[0]), string(algorithm))
	}
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----"), "")
	f.Fuzz(func(t *testing.T, data []byte, algorithm string) {
		for _, imported := range []func([]byte, string, signingkey.Algorithm) (signingkey.PublicKey, error){signingkey.ImportJWK, signingkey.ImportPEM} {
			key, err := imported(data, "own", signingkey.Algorithm(algorithm))
			if err != nil {
				if !errors.Is(err, signingkey.ErrKey) {
					t.Fatalf("error %v, want %v", err, signingkey.ErrKey)
				}
				continue
			}
			if key.ID() != "own" || !slices.Contains(signingkey.Algorithms, key.Algorithm()) {
				t.Fatalf("imported as %s %s", key.ID(), key.Algorithm())
			}
			expectPublic(t, key)
		}
	})
}

// Parsed public keys have a supported algorithm and are encoded without private members.
func FuzzParsePublicKey(f *testing.F) {
	for _, keys := range pool() {
		f.Add(marshal(f, keys[0].Public()))
		f.Add(marshal(f, keys[0]))
	}
	f.Add([]byte(`{"kty":"oct","k":"AAAA"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := signingkey.ParsePublicKey(data)
		if err != nil {
			return
		}
		expectPublic(t, key)
	})
}

// expectPublic checks that a key is encoded as a public key and accepts no invalid signature.
func expectPublic(t *testing.T, key signingkey.PublicKey) {
	t.Helper()
	var jwk jose.JSONWebKey
	if err := json.Unmarshal(marshal(t, key), &jwk); err != nil || !jwk.IsPublic() {
		t.Fatalf("not encoded as a public key: %v", err)
	}
	if err := key.Verify([]byte("input"), []byte("signature")); err == nil {
		t.Fatal("the key accepts an invalid signature")
	}
}

// The keys and thumbprints are the examples of RFC 9449 §4.1 and §6.1, and RFC 7638 §3.1.
func TestThumbprint(t *testing.T) {
	tests := map[string]struct{ jwk, want string }{
		"EC": {
			`{"kty":"EC","crv":"P-256","x":"l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs","y":"9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA"}`,
			"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I",
		},
		"RSA, other members don't count": {
			`{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB","alg":"RS256","kid":"2011-04-29"}`,
			"NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			key := testkit.Value(signingkey.ParsePublicKey([]byte(tc.jwk)))(t)
			if got, err := key.Thumbprint(); err != nil || got != tc.want {
				t.Errorf("thumbprint %q, error %v, want %q", got, err, tc.want)
			}
		})
	}
}
