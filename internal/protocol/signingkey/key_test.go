package signingkey_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// pool returns two keys for each algorithm. All tests share them, because RSA keys are slow to
// generate.
var pool = sync.OnceValue(func() map[signingkey.Algorithm][]signingkey.Key {
	keys := map[signingkey.Algorithm][]signingkey.Key{}
	for _, algorithm := range signingkey.Algorithms {
		for range 2 {
			key, err := signingkey.Generate(algorithm, start, rand.Reader)
			if err != nil {
				panic(err)
			}
			keys[algorithm] = append(keys[algorithm], key)
		}
	}
	return keys
})

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	return testkit.Value(json.Marshal(v))(t)
}

func forEachAlgorithm(t *testing.T, test func(*testing.T, signingkey.Key)) {
	for _, algorithm := range signingkey.Algorithms {
		t.Run(string(algorithm), func(t *testing.T) { test(t, pool()[algorithm][0]) })
	}
}

func TestGenerate(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, key signingkey.Key) {
		if key.State != signingkey.Pending || !key.CreatedAt.Equal(start) || key.Algorithm != key.Public().Algorithm() {
			t.Errorf("unexpected new key %+v", key)
		}
		jwk := publicJWK(t, key)
		thumbprint := testkit.Value(jwk.Thumbprint(crypto.SHA256))(t)
		if want := base64.RawURLEncoding.EncodeToString(thumbprint); key.ID != want || key.Public().ID() != want || jwk.KeyID != want {
			t.Errorf("ID %q, want the thumbprint %q", key.ID, want)
		}
		list, ok := key.ListPublic()
		listThumbprint := testkit.Value(list.Thumbprint())(t)
		if !ok || list.ID() == key.ID || list.ID() != listThumbprint || list.Algorithm() != key.Algorithm {
			t.Errorf("the key for lists is %s %s, want another %s key with its thumbprint %s", list.Algorithm(), list.ID(), key.Algorithm, listThumbprint)
		}
		if other := pool()[key.Algorithm][1]; other.ID == key.ID {
			t.Error("two generated keys have the same ID")
		}
	})
	if _, err := signingkey.Generate("HS256", start, rand.Reader); !errors.Is(err, signingkey.ErrAlgorithm) {
		t.Errorf("HS256: %v, want %v", err, signingkey.ErrAlgorithm)
	}
	if _, err := signingkey.Generate("none", start, iotest.ErrReader(errors.New("unused"))); !errors.Is(err, signingkey.ErrAlgorithm) {
		t.Errorf("none: %v, want %v", err, signingkey.ErrAlgorithm)
	}
}

func TestKeyRoundTrip(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, key signingkey.Key) {
		for name, change := range map[string]func(*signingkey.Key){
			"Pending": func(k *signingkey.Key) { k.PublishedAt = start.Add(time.Hour) },
			"Active": func(k *signingkey.Key) {
				k.State, k.ActiveAt, k.LongestLifetime = signingkey.Active, start, 5*time.Minute
			},
			"Retiring": func(k *signingkey.Key) {
				k.State, k.RetiredAt, k.LongestLifetime = signingkey.Retiring, start.In(time.FixedZone("east", 7200)), 24*time.Hour
			},
			"no times": func(k *signingkey.Key) { k.CreatedAt = time.Time{} },
		} {
			key := key
			change(&key)
			data := marshal(t, key)
			var got signingkey.Key
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if again := marshal(t, got); !bytes.Equal(again, data) {
				t.Errorf("%s: encoded again as %s, want %s", name, again, data)
			}
			if got.ID != key.ID || got.State != key.State || !got.RetiredAt.Equal(key.RetiredAt) || !got.ActiveAt.Equal(key.ActiveAt) || !got.PublishedAt.Equal(key.PublishedAt) ||
				!got.CreatedAt.Equal(key.CreatedAt) || got.LongestLifetime != key.LongestLifetime || got.Algorithm != key.Algorithm {
				t.Errorf("%s: decoded %+v, want %+v", name, got, key)
			}
			list, _ := key.ListPublic()
			if decoded, ok := got.ListPublic(); !ok || !decoded.Equal(list) {
				t.Errorf("%s: the key for lists is %s, want %s", name, decoded.ID(), list.ID())
			}
			if key.State == signingkey.Retiring { // It only verifies.
				if _, err := got.PrivateJWKS(); !errors.Is(err, signingkey.ErrSealed) || !got.Public().Equal(key.Public()) {
					t.Errorf("%s: error %v, want %v", name, err, signingkey.ErrSealed)
				}
				_, err := got.ListSigner().Sign(nil, []byte("input"))
				testkit.Diff(t, name+": signature of a list", signingkey.ErrSealed, err, cmpopts.EquateErrors())
				continue
			}
			verify(t, publicJWK(t, key), sign(t, got, "payload"))
			expectSigns(t, got.ListSigner(), list)
		}
	})
}

// expectSigns checks that the signatures of signer are those of key.
func expectSigns(t *testing.T, signer *signingkey.Signer, key signingkey.PublicKey) {
	t.Helper()
	testkit.Diff(t, "ID of the signer", key.ID(), signer.KeyID())
	signature := testkit.Value(signer.Sign(nil, []byte("input")))(t)
	testkit.Do(t, key.Verify([]byte("input"), signature))
}

// Tokens and lists have different keys, so that a list never passes as a token.
func TestListsAndTokensHaveDifferentKeys(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, key signingkey.Key) {
		signature := testkit.Value(key.ListSigner().Sign(nil, []byte("input")))(t)
		testkit.Diff(t, "list as a token", signingkey.ErrSignature, key.Public().Verify([]byte("input"), signature), cmpopts.EquateErrors())
		shared := decode(t, key)
		shared["listJWK"] = shared["jwk"]
		testkit.Diff(t, "the same key for both", signingkey.ErrKey, json.Unmarshal(marshal(t, shared), &signingkey.Key{}), cmpopts.EquateErrors())
	})
}

// A key of a version that signed lists with the key for tokens signs no lists.
func TestKeyWithoutListKey(t *testing.T) {
	stored := decode(t, pool()[signingkey.ES256][0])
	delete(stored, "listJWK")
	var key signingkey.Key
	testkit.Do(t, json.Unmarshal(marshal(t, stored), &key))
	testkit.Diff(t, "encoded again", marshal(t, stored), marshal(t, decode(t, key)))
	if _, ok := key.ListPublic(); ok {
		t.Error("it has a key for lists")
	}
	_, err := key.ListSigner().Sign(nil, []byte("input"))
	testkit.Diff(t, "signature of a list", signingkey.ErrSealed, err, cmpopts.EquateErrors())
	sealed := key.Seal(sealedForTest())
	for name, private := range map[string][]byte{"set": testkit.Value(key.PrivateJWKS())(t), "JWK of that version": marshal(t, stored["jwk"])} {
		opened, err := sealed.Open(private)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		expectSigns(t, opened.Signer(), key.Public())
	}
}

// A stored lifetime that no token can have must neither keep a key published nor make the other keys unreadable.
func TestLifetimeOfStoredKeyIsLimited(t *testing.T) {
	for _, seconds := range []int64{86401, 1 << 40, math.MaxInt64} {
		key := pool()[signingkey.ES256][0]
		key.State = signingkey.Retiring
		outer := decode(t, key)
		outer["longestLifetimeSeconds"] = seconds
		var got signingkey.Key
		if err := json.Unmarshal(marshal(t, outer), &got); err != nil || got.LongestLifetime != 24*time.Hour {
			t.Errorf("%d seconds are read as %s: %v", seconds, got.LongestLifetime, err)
		}
	}
}

// Invalid stored keys are rejected with ErrKey, and the error doesn't contain key material.
func TestKeyRejectsInvalidEncodings(t *testing.T) {
	type object = map[string]any
	set := func(member string, value any) func(*testing.T, object, object) {
		return func(_ *testing.T, jwk, _ object) { jwk[member] = value }
	}
	setOuter := func(member string, value any) func(*testing.T, object, object) {
		return func(_ *testing.T, _, outer object) { outer[member] = value }
	}
	fromOther := func(member string) func(*testing.T, object, object) {
		return func(t *testing.T, jwk, _ object) {
			other, _ := decode(t, pool()[signingkey.Algorithm(jwk["alg"].(string))][1])["jwk"].(object)
			jwk[member] = other[member]
		}
	}
	replace := func(key any, algorithm string) func(*testing.T, object, object) {
		return func(t *testing.T, stored, _ object) {
			jwk := jose.JSONWebKey{Key: key, Algorithm: algorithm}
			sum := testkit.Value(jwk.Thumbprint(crypto.SHA256))(t)
			jwk.KeyID = base64.RawURLEncoding.EncodeToString(sum)
			clear(stored)
			maps.Copy(stored, decodeSet(t, marshal(t, jwk)))
		}
	}
	small := testkit.Value(rsa.GenerateKey(rand.Reader, 1024))(t)
	all := signingkey.Algorithms
	ec := []signingkey.Algorithm{signingkey.ES256, signingkey.ES384}
	rsaOnly := []signingkey.Algorithm{signingkey.RS256, signingkey.PS256}
	tests := map[string]struct {
		algorithms []signingkey.Algorithm
		change     func(t *testing.T, jwk, outer object)
	}{
		"public only": {all, func(_ *testing.T, jwk, _ object) {
			for _, member := range []string{"d", "p", "q", "dp", "dq", "qi"} {
				delete(jwk, member)
			}
		}},
		"no alg":               {all, set("alg", "")},
		"alg of another curve": {ec, set("alg", "ES512")},
		"another kid":          {all, set("kid", "mine")},
		"another key's d":      {all, fromOther("d")},
		"another key's x":      {append(ec, signingkey.EdDSA), fromOther("x")},
		"another key's n":      {rsaOnly, fromOther("n")},
		"short d":              {append(ec, signingkey.EdDSA), set("d", "AAAA")},
		"d is not Base64":      {all, set("d", "!!!!canary!!!!")},
		"no jwk":               {all, func(_ *testing.T, jwk, _ object) { clear(jwk) }},
		"symmetric key": {all, func(_ *testing.T, jwk, _ object) {
			clear(jwk)
			maps.Copy(jwk, object{"kty": "oct", "k": "Y2FuYXJ5", "alg": "HS256", "kid": "x"})
		}},
		"RSA of 1024 bits":  {rsaOnly, replace(small, "RS256")},
		"unknown state":     {all, setOuter("state", "Retired")},
		"malformed time":    {all, setOuter("createdAt", "yesterday")},
		"negative lifetime": {all, setOuter("longestLifetimeSeconds", -1)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, algorithm := range tc.algorithms {
				for _, member := range []string{"jwk", "listJWK"} {
					key := pool()[algorithm][0]
					key.State = signingkey.Active
					outer := decode(t, key)
					jwk, _ := outer[member].(object)
					secret, _ := jwk["d"].(string)
					tc.change(t, jwk, outer)
					var got signingkey.Key
					err := json.Unmarshal(marshal(t, outer), &got)
					if !errors.Is(err, signingkey.ErrKey) {
						t.Errorf("%s of %s: error %v, want %v", member, algorithm, err, signingkey.ErrKey)
					} else if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "canary") {
						t.Errorf("%s of %s: the error contains key material: %v", member, algorithm, err)
					}
					testkit.Diff(t, "ID of the rejected key", "", got.ID)
				}
			}
		})
	}
}

func decode(t testing.TB, key signingkey.Key) map[string]any {
	t.Helper()
	var outer map[string]any
	testkit.Do(t, json.Unmarshal(marshal(t, key), &outer))
	return outer
}

func sealedForTest() signingkey.Sealed {
	return signingkey.Sealed{RealmUID: "uid", KeyID: "1", EncryptedDataKey: []byte("wrapped"), Ciphertext: []byte("ciphertext")}
}

func TestOpenAcceptsOnlyThePrivatePartOfTheKey(t *testing.T) {
	key, other := pool()[signingkey.RS256][0], pool()[signingkey.RS256][1]
	set := func(t *testing.T, key signingkey.Key) (private []any) {
		private, _ = decodeSet(t, testkit.Value(key.PrivateJWKS())(t))["keys"].([]any)
		return private
	}
	own, foreign := set(t, key), set(t, other)
	public, _ := key.ListPublic()
	sealed := key.Seal(sealedForTest())
	opened := testkit.Value(sealed.Open(marshal(t, map[string]any{"keys": own})))(t)
	if opened.Sealed() != nil {
		t.Error("the opened key is sealed")
	}
	expectSigns(t, opened.Signer(), key.Public())
	expectSigns(t, opened.ListSigner(), public)
	for name, keys := range map[string][]any{
		"another key":                  foreign,
		"another key for lists":        {own[0], foreign[1]},
		"another key for tokens":       {foreign[0], own[1]},
		"in the other order":           {own[1], own[0]},
		"without the key for lists":    own[:1],
		"with a further key":           {own[0], own[1], foreign[0]},
		"public key for lists":         {own[0], public},
		"something else than two JWKs": {"canary", 1},
	} {
		_, err := sealed.Open(marshal(t, map[string]any{"keys": keys}))
		testkit.Diff(t, name, signingkey.ErrKey, err, cmpopts.EquateErrors())
	}
	_, err := sealed.Open([]byte("{"))
	testkit.Diff(t, "not a JWK Set", signingkey.ErrKey, err, cmpopts.EquateErrors())
}

func decodeSet(t *testing.T, data []byte) (set map[string]any) {
	t.Helper()
	testkit.Do(t, json.Unmarshal(data, &set))
	return set
}

func TestUnmarshalRejectsIncompleteSealedKey(t *testing.T) {
	key := testkit.Value(signingkey.Generate(signingkey.ES256, time.Now(), rand.Reader))(t)
	plain := testkit.Value(json.Marshal(key))(t)
	sealed := testkit.Value(json.Marshal(key.Seal(sealedForTest())))(t)
	testkit.Do(t, json.Unmarshal(sealed, &signingkey.Key{}))
	part := string(sealed[bytes.Index(sealed, []byte(`"sealed"`)):bytes.Index(sealed, []byte(`,"state"`))])
	for name, data := range map[string]string{
		"private members beside the sealed part": strings.Replace(string(plain), `"state"`, part+`,"state"`, 1),
		"neither private nor sealed":             strings.Replace(string(sealed), part+",", "", 1),
		"no realm":                               strings.Replace(string(sealed), `"realmUID":"uid"`, `"realmUID":""`, 1),
		"no key ID":                              strings.Replace(string(sealed), `"keyID":"1"`, `"keyID":""`, 1),
		"other algorithm":                        strings.Replace(string(sealed), "ES256", "ES384", 1),
		"other ID":                               strings.Replace(string(sealed), key.ID, strings.ToUpper(key.ID), 1),
	} {
		if data == string(sealed) {
			t.Fatalf("%s: the test changes nothing", name)
		}
		testkit.Diff(t, name, signingkey.ErrKey, json.Unmarshal([]byte(data), &signingkey.Key{}), cmpopts.EquateErrors())
	}
}
