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
)

// What a stranger's library signs with a key verifies, with any message and again and
// again: signatures of ECDSA differ in the zeros that they begin with.
func TestVerify(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, key signingkey.Key) {
		verifier := key.Public().Verifier()
		rounds := 1000
		if key.Algorithm == signingkey.RS256 || key.Algorithm == signingkey.PS256 {
			rounds = 20
		}
		for range rounds {
			input, signature := split(t, sign(t, key, rand.Text()))
			if err := verifier.Verify(input, signature); err != nil {
				t.Fatal(err)
			}
		}
		input, signature := split(t, signedElsewhere(t, key))
		if err := verifier.Verify(input, signature); err != nil {
			t.Errorf("go-jose's signature: %v", err)
		}
	})
}

// No bit of a message or of a signature can be changed, and no signature be cut or extended.
func TestVerifyRefuses(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, key signingkey.Key) {
		verifier := key.Public().Verifier()
		input, signature := split(t, sign(t, key, "payload"))
		refused := func(what string, input, signature []byte) {
			t.Helper()
			if err := verifier.Verify(input, signature); !errors.Is(err, signingkey.ErrSignature) {
				t.Errorf("%s: %v, want ErrSignature", what, err)
			}
		}
		for i := range len(signature) * 8 {
			signature[i/8] ^= 1 << (i % 8)
			refused("a changed signature", input, signature)
			signature[i/8] ^= 1 << (i % 8)
		}
		input[len(input)-1] ^= 1
		refused("a changed message", input, signature)
		input[len(input)-1] ^= 1
		refused("no signature", input, nil)
		refused("a cut one", input, signature[:len(signature)-1])
		refused("a longer one", input, append(signature, 0))
		refused("one of zeros", input, make([]byte, len(signature)))

		other := pool()[key.Algorithm][1]
		_, foreign := split(t, sign(t, other, "payload"))
		refused("another key's", input, foreign)
	})
}

// signedElsewhere is a JWS that go-jose made with the key.
func signedElsewhere(t testing.TB, key signingkey.Key) string {
	t.Helper()
	var stored struct {
		JWK jose.JSONWebKey `json:"jwk"`
	}
	if err := json.Unmarshal(marshal(t, key), &stored); err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: stored.JWK.Key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return compact
}

// split returns what a JWS signs, and its signature.
func split(t testing.TB, jws string) (input, signature []byte) {
	t.Helper()
	at := strings.LastIndexByte(jws, '.')
	signature, err := base64.RawURLEncoding.DecodeString(jws[at+1:])
	if err != nil {
		t.Fatal(err)
	}
	return []byte(jws[:at]), signature
}
