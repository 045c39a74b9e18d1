package signingkey_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// publicMembers lists all members of a published key for each algorithm.
var publicMembers = map[signingkey.Algorithm][]string{
	signingkey.ES256: {"alg", "crv", "kid", "kty", "use", "x", "y"},
	signingkey.ES384: {"alg", "crv", "kid", "kty", "use", "x", "y"},
	signingkey.EdDSA: {"alg", "crv", "kid", "kty", "use", "x"},
	signingkey.RS256: {"alg", "e", "kid", "kty", "n", "use"},
	signingkey.PS256: {"alg", "e", "kid", "kty", "n", "use"},
}

// The JWK Set contains each key once, no private members, and the same bytes for every order of the
// keys.
func TestJWKSHasNoPrivateMembers(t *testing.T) {
	var all []signingkey.Key
	for _, algorithm := range signingkey.Algorithms {
		all = append(all, pool()[algorithm]...)
	}
	rapid.Check(t, func(t *rapid.T) {
		chosen := rapid.SliceOfDistinct(rapid.IntRange(0, len(all)-1), rapid.ID[int]).Draw(t, "keys")
		states := rapid.SliceOfN(rapid.SampledFrom([]signingkey.State{signingkey.Pending, signingkey.Active, signingkey.Retiring}), len(chosen), len(chosen)).Draw(t, "states")
		want := map[string]signingkey.Algorithm{}
		var public []signingkey.PublicKey
		for i, n := range chosen {
			key := all[n]
			key.State = states[i]
			want[key.ID] = key.Algorithm
			public = append(public, key.Public())
		}
		data, err := signingkey.JWKS(public)
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(public)
		if again, err := signingkey.JWKS(public); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("reversed keys produce %s, %v, want %s", again, err, data)
		}

		var set struct {
			Keys []map[string]any `json:"keys"`
		}
		if err := json.Unmarshal(data, &set); err != nil {
			t.Fatal(err)
		}
		if set.Keys == nil {
			t.Fatal("keys is null")
		}
		got := map[string]signingkey.Algorithm{}
		for _, key := range set.Keys {
			id, _ := key["kid"].(string)
			alg, _ := key["alg"].(string)
			got[id] = signingkey.Algorithm(alg)
			if diff := cmp.Diff(publicMembers[got[id]], slices.Sorted(maps.Keys(key))); diff != "" {
				t.Fatalf("members of the %s key (-want +got):\n%s", alg, diff)
			}
			if key["use"] != "sig" {
				t.Fatalf("use %q, want sig", key["use"])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(set.Keys) != len(chosen) {
			t.Fatalf("%d keys, want %d (-want +got):\n%s", len(set.Keys), len(chosen), diff)
		}
		var parsed jose.JSONWebKeySet
		if err := json.Unmarshal(data, &parsed); err != nil {
			t.Fatal(err)
		}
		for _, key := range parsed.Keys {
			if !key.IsPublic() || !key.Valid() {
				t.Fatalf("key %q is not a valid public key", key.KeyID)
			}
		}
	})
}
