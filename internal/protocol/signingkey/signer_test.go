package signingkey_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// publicJWK returns the key as verifiers see it in the JWK Set.
func publicJWK(t testing.TB, key signingkey.Key) jose.JSONWebKey {
	t.Helper()
	data := testkit.Value(signingkey.JWKS([]signingkey.PublicKey{key.Public()}))(t)
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(data, &set); err != nil || len(set.Keys) != 1 {
		t.Fatalf("the JWK Set has %d keys: %v", len(set.Keys), err)
	}
	return set.Keys[0]
}

// sign returns a JWS of payload in Compact Serialization.
func sign(t testing.TB, key signingkey.Key, payload string) string {
	t.Helper()
	signer := key.Signer()
	if signer.KeyID() != key.ID || signer.Algorithm() != key.Algorithm {
		t.Fatalf("signer for %s %s, want %s %s", signer.KeyID(), signer.Algorithm(), key.ID, key.Algorithm)
	}
	header := marshal(t, map[string]string{"alg": string(key.Algorithm), "kid": key.ID})
	input := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	before := "kept"
	signature := testkit.Value(signer.Sign([]byte(before), []byte(input)))(t)
	if string(signature[:len(before)]) != before {
		t.Fatal("Sign overwrote dst instead of appending to it")
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature[len(before):])
}

// verify checks a JWS with go-jose.
func verify(t testing.TB, key jose.JSONWebKey, jws string) {
	t.Helper()
	parsed := testkit.Value(jose.ParseSignedCompact(jws, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(key.Algorithm)}))(t)
	if _, err := parsed.Verify(key); err != nil {
		t.Fatalf("verifying the JWS: %v", err)
	}
}

// The JWK Set has the same bytes for every order of the keys.
func TestJWKSIsSorted(t *testing.T) {
	first, second := pool()[signingkey.ES256][0].Public(), pool()[signingkey.EdDSA][0].Public()
	set := testkit.Value(signingkey.JWKS([]signingkey.PublicKey{first, second}))(t)
	if reversed, err := signingkey.JWKS([]signingkey.PublicKey{second, first}); err != nil || !bytes.Equal(reversed, set) {
		t.Errorf("got %s, %v for another order, want %s", reversed, err, set)
	}
	if empty, err := signingkey.JWKS(nil); err != nil || string(empty) != `{"keys":[]}` {
		t.Errorf("got %s, %v without keys", empty, err)
	}
}

// R and S are padded. In about one of 128 signatures, R or S is short.
func TestSignPadsShortIntegers(t *testing.T) {
	for algorithm, wantSize := range map[signingkey.Algorithm]int{signingkey.ES256: 64, signingkey.ES384: 96} {
		t.Run(string(algorithm), func(t *testing.T) {
			key := pool()[algorithm][0]
			public := publicJWK(t, key)
			short := 0
			for n := 0; short < 3; n++ {
				if n == 10_000 {
					t.Fatal("no signature with a short integer, which is practically impossible")
				}
				jws := sign(t, key, "payload")
				parsed := testkit.Value(jose.ParseSignedCompact(jws, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(algorithm)}))(t)
				signature := parsed.Signatures[0].Signature
				if len(signature) != wantSize {
					t.Fatalf("signature of %d bytes, want %d", len(signature), wantSize)
				}
				if signature[0] != 0 && signature[wantSize/2] != 0 {
					continue
				}
				short++
				verify(t, public, jws)
			}
		})
	}
}

// Signatures from Signer and from go-jose can be verified. The test repeats this with random
// messages, because ECDSA signatures differ in their leading zeros.
func TestVerify(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, key signingkey.Key) {
		verifier := key.Public()
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

// A signature is rejected if it or the message changes, or if its length changes.
func TestVerifyRejectsChanges(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, key signingkey.Key) {
		verifier := key.Public()
		input, signature := split(t, sign(t, key, "payload"))
		rejects := func(what string, input, signature []byte) {
			t.Helper()
			testkit.Diff(t, what, signingkey.ErrSignature, verifier.Verify(input, signature), cmpopts.EquateErrors())
		}
		signature[0] ^= 1
		rejects("changed signature", input, signature)
		signature[0] ^= 1
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
	return testkit.Value(signed.CompactSerialize())(t)
}

// split returns the signing input of a JWS and its signature.
func split(t testing.TB, jws string) (input, signature []byte) {
	t.Helper()
	at := strings.LastIndexByte(jws, '.')
	signature = testkit.Value(base64.RawURLEncoding.DecodeString(jws[at+1:]))(t)
	return []byte(jws[:at]), signature
}
