package signingkey_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// A published key can be parsed, is encoded to the same bytes again, and verifies signatures.
func TestPublicKeyRoundTrip(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, key signingkey.Key) {
		data := marshal(t, key.Public())
		var read signingkey.PublicKey
		if err := json.Unmarshal(data, &read); err != nil {
			t.Fatal(err)
		}
		if again := marshal(t, read); !bytes.Equal(data, again) {
			t.Errorf("encoded again as %s, want %s", again, data)
		}
		if read.ID() != key.ID || read.Algorithm() != key.Algorithm {
			t.Errorf("parsed key is %s %s, want %s %s", read.Algorithm(), read.ID(), key.Algorithm, key.ID)
		}
		input, signature := split(t, sign(t, key, "payload"))
		if err := read.Verifier().Verify(input, signature); err != nil {
			t.Error(err)
		}
	})
}

func TestParsePublicKey(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, key signingkey.Key) {
		hasTwo := key.Algorithm == signingkey.RS256 || key.Algorithm == signingkey.PS256
		for name, tc := range map[string]struct {
			change   map[string]any // members to set; nil deletes a member
			rejected bool
		}{
			"unchanged":         {},
			"no ID and use":     {change: map[string]any{"kid": nil, "use": nil}},
			"no algorithm":      {change: map[string]any{"alg": nil}, rejected: hasTwo},
			"unknown members":   {change: map[string]any{"ext": true, "key_ops": []string{"verify"}}},
			"other algorithm":   {change: map[string]any{"alg": "HS256"}, rejected: true},
			"algorithm is none": {change: map[string]any{"alg": "none"}, rejected: true},
			"for encryption":    {change: map[string]any{"use": "enc"}, rejected: true},
			"private member":    {change: map[string]any{"p": "AAAA"}, rejected: true},
			"no type":           {change: map[string]any{"kty": nil}, rejected: true},
			"other type":        {change: map[string]any{"kty": "oct", "k": "AAAA"}, rejected: true},
			"empty key":         {change: map[string]any{"x": "", "n": ""}, rejected: true},
			"not Base64url":     {change: map[string]any{"x": "!", "n": "!"}, rejected: true},
		} {
			t.Run(name, func(t *testing.T) {
				var members map[string]any
				if err := json.Unmarshal(marshal(t, key.Public()), &members); err != nil {
					t.Fatal(err)
				}
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
		if err := json.Unmarshal(marshal(t, key), &stored); err != nil {
			t.Fatal(err)
		}
		_, err := signingkey.ParsePublicKey(marshal(t, stored.JWK))
		if !errors.Is(err, signingkey.ErrKey) {
			t.Fatalf("error %v, want %v", err, signingkey.ErrKey)
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
		var jwk jose.JSONWebKey
		if err := json.Unmarshal(marshal(t, key), &jwk); err != nil || !jwk.IsPublic() {
			t.Fatalf("not encoded as a public key: %v", err)
		}
		if err := key.Verifier().Verify([]byte("input"), []byte("signature")); err == nil {
			t.Fatal("the key accepts an invalid signature")
		}
	})
}
