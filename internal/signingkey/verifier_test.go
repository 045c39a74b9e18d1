package signingkey_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

// Signatures from Signer and from go-jose can be verified. The test repeats this with random
// messages, because ECDSA signatures differ in their leading zeros.
func TestVerify(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, key signingkey.Key) {
		verifier := key.Public().Verifier()
		rounds := 64
		if key.Algorithm == signingkey.RS256 || key.Algorithm == signingkey.PS256 {
			rounds = 20
		}
		for range rounds {
			input, signature := split(t, sign(t, key, rand.Text()))
			testkit.Do(t, verifier.Verify(input, signature))
		}
		input, signature := split(t, signWithJose(t, key))
		if err := verifier.Verify(input, signature); err != nil {
			t.Errorf("signature of go-jose: %v", err)
		}
	})
}

// A signature is rejected if any bit of it or of the message changes, or if its length changes.
func TestVerifyRejectsChanges(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, key signingkey.Key) {
		verifier := key.Public().Verifier()
		input, signature := split(t, sign(t, key, "payload"))
		rejects := func(what string, input, signature []byte) {
			t.Helper()
			if err := verifier.Verify(input, signature); !errors.Is(err, signingkey.ErrSignature) {
				t.Errorf("%s: error %v, want ErrSignature", what, err)
			}
		}
		for i := range len(signature) * 8 {
			if len(signature) == 96 && i%8 != i/8%8 {
				continue // verification takes a millisecond on P-384, so one bit of each byte changes
			}
			signature[i/8] ^= 1 << (i % 8)
			rejects("changed signature", input, signature)
			signature[i/8] ^= 1 << (i % 8)
		}
		input[len(input)-1] ^= 1
		rejects("changed message", input, signature)
		input[len(input)-1] ^= 1
		rejects("no signature", input, nil)
		rejects("truncated signature", input, signature[:len(signature)-1])
		rejects("extended signature", input, append(signature, 0))
		rejects("signature of zeros", input, make([]byte, len(signature)))

		other := pool()[key.Algorithm][1]
		_, otherSignature := split(t, sign(t, other, "payload"))
		rejects("signature of another key", input, otherSignature)
	})
}

// signWithJose returns a JWS that go-jose signed with the key.
func signWithJose(t testing.TB, key signingkey.Key) string {
	t.Helper()
	var stored struct {
		JWK jose.JSONWebKey `json:"jwk"`
	}
	testkit.Do(t, json.Unmarshal(marshal(t, key), &stored))
	signer := testkit.Value(jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: stored.JWK.Key}, nil))(t)
	signed := testkit.Value(signer.Sign([]byte("payload")))(t)
	compact := testkit.Value(signed.CompactSerialize())(t)
	return compact
}

// split returns the signing input of a JWS and its signature.
func split(t testing.TB, jws string) (input, signature []byte) {
	t.Helper()
	at := strings.LastIndexByte(jws, '.')
	signature = testkit.Value(base64.RawURLEncoding.DecodeString(jws[at+1:]))(t)
	return []byte(jws[:at]), signature
}
