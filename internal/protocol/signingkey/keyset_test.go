package signingkey_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// members returns the members of the first key of an algorithm as a JWK. A nil value in change
// removes a member.
func members(t testing.TB, algorithm signingkey.Algorithm, change map[string]any) map[string]any {
	t.Helper()
	var m map[string]any
	testkit.Do(t, json.Unmarshal(marshal(t, pool()[algorithm][0].Public()), &m))
	maps.Copy(m, change)
	maps.DeleteFunc(m, func(_ string, value any) bool { return value == nil })
	return m
}

func setOf(t testing.TB, keys ...any) []byte {
	t.Helper()
	return marshal(t, map[string]any{"keys": keys})
}

// An entry is used or skipped, and doesn't affect the other entries.
func TestParseKeySetEntries(t *testing.T) {
	for name, tc := range map[string]struct {
		entry any
		want  signingkey.Algorithm // empty if the entry is skipped
	}{
		"published key":          {members(t, signingkey.ES384, nil), signingkey.ES384},
		"RSA without alg":        {members(t, signingkey.PS256, map[string]any{"alg": nil}), signingkey.RS256},
		"Ed25519 of RFC 9864":    {members(t, signingkey.EdDSA, map[string]any{"alg": "Ed25519"}), signingkey.EdDSA},
		"EC key with alg of OKP": {members(t, signingkey.ES384, map[string]any{"alg": "Ed25519"}), ""},
		"SPIFFE JWT-SVID":        {members(t, signingkey.ES384, map[string]any{"use": "jwt-svid"}), signingkey.ES384},
		"SPIFFE X.509-SVID":      {members(t, signingkey.ES384, map[string]any{"use": "x509-svid"}), ""},
		"kid too long":           {members(t, signingkey.ES384, map[string]any{"kid": strings.Repeat("k", 257)}), ""},
		"kid with a line break":  {members(t, signingkey.ES384, map[string]any{"kid": "a\nb"}), ""},
		"no kid":                 {members(t, signingkey.ES384, map[string]any{"kid": nil}), ""},
		"unsupported algorithm":  {members(t, signingkey.RS256, map[string]any{"alg": "RS512"}), ""},
		"not an object":          {"key", ""},
	} {
		t.Run(name, func(t *testing.T) {
			keys, skipped, err := signingkey.ParseKeySet(setOf(t, members(t, signingkey.ES256, map[string]any{"kid": "!"}), tc.entry))
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				if len(keys) != 1 || skipped != 1 {
					t.Fatalf("%d keys and %d skipped, want 1 and 1", len(keys), skipped)
				}
				return
			}
			if len(keys) != 2 || skipped != 0 || keys[1].Algorithm() != tc.want {
				t.Fatalf("%d keys and %d skipped, want %s", len(keys), skipped, tc.want)
			}
			// The record repeats the algorithm, so that token servers don't need the default.
			if again, err := signingkey.ParsePublicKey(marshal(t, keys[1])); err != nil || !again.Equal(keys[1]) {
				t.Errorf("the encoded key is parsed as %v, %v", again, err)
			}
		})
	}
}

func TestParseKeySetRejects(t *testing.T) {
	key := func(change map[string]any) any { return members(t, signingkey.ES256, change) }
	repeat := func(n int, entry func(i int) any) []byte {
		entries := make([]any, 0, n)
		for i := range n {
			entries = append(entries, entry(i))
		}
		return setOf(t, entries...)
	}
	named := func(i int) any { return key(map[string]any{"kid": strings.Repeat("k", i+1)}) }
	skippedEntry := func(int) any { return map[string]any{"kty": "unknown"} }
	for name, tc := range map[string]struct {
		set  []byte
		want error // nil if accepted
	}{
		"most keys":               {repeat(32, named), nil},
		"too many keys":           {repeat(33, named), signingkey.ErrKey},
		"most entries":            {append(append([]byte(`{"keys":[`), slices.Concat(marshal(t, key(nil)), bytes.Repeat([]byte(`,{}`), 63))...), `]}`...), nil},
		"too many entries":        {append(append([]byte(`{"keys":[`), slices.Concat(marshal(t, key(nil)), bytes.Repeat([]byte(`,{}`), 64))...), `]}`...), signingkey.ErrKey},
		"no keys":                 {[]byte(`{"keys":[]}`), signingkey.ErrNoKeys},
		"only unsupported":        {repeat(3, skippedEntry), signingkey.ErrNoKeys},
		"no list":                 {[]byte(`{}`), signingkey.ErrKey},
		"data after the set":      {append(setOf(t, key(nil)), '}'), signingkey.ErrKey},
		"private key":             {setOf(t, key(nil), key(map[string]any{"d": "AAAA"})), signingkey.ErrPrivateKey},
		"private key without kid": {setOf(t, key(nil), key(map[string]any{"d": "AAAA", "kid": nil})), signingkey.ErrPrivateKey},
		"symmetric key":           {setOf(t, key(nil), map[string]any{"kty": "oct", "k": "AAAA", "kid": "s"}), signingkey.ErrPrivateKey},
	} {
		t.Run(name, func(t *testing.T) {
			keys, _, err := signingkey.ParseKeySet(tc.set)
			if !errors.Is(err, tc.want) || (err != nil && (!errors.Is(err, signingkey.ErrKey) || keys != nil)) {
				t.Fatalf("%d keys and error %v, want %v", len(keys), err, tc.want)
			}
			if errors.Is(err, signingkey.ErrPrivateKey) != errors.Is(tc.want, signingkey.ErrPrivateKey) || errors.Is(err, signingkey.ErrNoKeys) != errors.Is(tc.want, signingkey.ErrNoKeys) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

// The same keys are equal in every order, and a repeated key counts once. Different keys with the
// same ID are kept.
func TestParseKeySetIsSorted(t *testing.T) {
	entries := []any{
		members(t, signingkey.ES256, map[string]any{"kid": "same"}),
		members(t, signingkey.RS256, map[string]any{"kid": "same"}),
		json.RawMessage(marshal(t, pool()[signingkey.ES256][1].Public())),
		members(t, signingkey.EdDSA, nil),
		members(t, signingkey.EdDSA, nil),
	}
	second := members(t, signingkey.ES256, nil)
	testkit.Do(t, json.Unmarshal(marshal(t, pool()[signingkey.ES256][1].Public()), &second))
	second["kid"] = "same"
	entries = append(entries, second)
	want, _, err := signingkey.ParseKeySet(setOf(t, entries...))
	if err != nil || len(want) != 5 {
		t.Fatalf("%d keys and error %v, want 5", len(want), err)
	}
	for range entries {
		entries = append(entries[1:], entries[0])
		got, _, err := signingkey.ParseKeySet(setOf(t, entries...))
		if err != nil || !slices.EqualFunc(got, want, signingkey.PublicKey.Equal) {
			t.Errorf("keys %v and error %v, want %v", got, err, want)
		}
	}
}

// FuzzParseKeySet checks that a fetched key set yields only public keys with a kid, at most as many
// as a record can hold, and that the set of these keys yields the same keys.
func FuzzParseKeySet(f *testing.F) {
	var all []any
	for _, keys := range pool() {
		f.Add(setOf(f, keys[0].Public()))
		f.Add(setOf(f, keys[0]))
		all = append(all, keys[0].Public())
	}
	f.Add(setOf(f, all...))
	f.Add([]byte(`{"keys":[{"kty":"oct","k":"AAAA"}]}`))
	f.Add([]byte(`{"keys":[null,{}],"spiffe_sequence":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, _, err := signingkey.ParseKeySet(data)
		if err != nil {
			if !errors.Is(err, signingkey.ErrKey) || keys != nil {
				t.Fatalf("%d keys and error %v, want %v", len(keys), err, signingkey.ErrKey)
			}
			return
		}
		if len(keys) == 0 || len(keys) > 32 {
			t.Fatalf("%d keys", len(keys))
		}
		var published []any
		for _, key := range keys {
			if key.ID() == "" || len(key.ID()) > 256 || strings.ContainsFunc(key.ID(), func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Fatalf("kid %q", key.ID())
			}
			expectPublic(t, key)
			published = append(published, key)
		}
		again, skipped, err := signingkey.ParseKeySet(setOf(t, published...))
		if err != nil || skipped != 0 || !slices.EqualFunc(again, keys, signingkey.PublicKey.Equal) {
			t.Fatalf("the parsed set yields %d keys, %d skipped and error %v, want %d", len(again), skipped, err, len(keys))
		}
	})
}
