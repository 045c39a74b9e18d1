package token_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 999_000_000, time.UTC)

func newKey(t testing.TB, algorithm signingkey.Algorithm) signingkey.Key {
	t.Helper()
	return testkit.Value(signingkey.Generate(algorithm, now, rand.Reader))(t)
}

// part decodes one of the three parts of a token.
func part(t testkit.T, jwt string, n int) []byte {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		t.Fatal("the token does not have three parts: " + jwt)
	}
	return testkit.Value(base64.RawURLEncoding.Strict().DecodeString(parts[n]))(t)
}

// The claims are encoded in the same way as by encoding/json, for any strings.
func TestClaimsMatchEncodingJSON(t *testing.T) {
	key := newKey(t, signingkey.EdDSA)
	signer := token.NewSigner(key.Signer())
	text := rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[a-z0-9_.:/-]{0,40}`),
		rapid.StringMatching(`["\\<>&'\x00-\x20\x7f\x{2028}\x{2029}é😀]{0,12}`),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		claims := token.Claims{
			Issuer: text.Draw(t, "iss"), ClientID: text.Draw(t, "client_id"), Identity: text.Draw(t, "client_uid"),
			Audience: rapid.SliceOfN(text, 1, 4).Draw(t, "aud"), Scope: text.Draw(t, "scope"),
			IssuedAt: time.Unix(rapid.Int64Range(-1<<33, 1<<36).Draw(t, "iat"), 999_999_999),
			Lifetime: time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "lifetime")),
		}
		uri, index := text.Draw(t, "uri"), rapid.IntRange(0, 1<<20).Draw(t, "idx")
		if uri != "" {
			claims.Status = token.Status{Prefix: token.StatusPrefix(uri), Index: index}
		}
		id := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "jti")
		jwt, _, err := signer.Sign(claims, bytes.NewReader(id))
		if err != nil {
			t.Fatal(err)
		}
		payload := part(t, jwt, 1)
		var compact bytes.Buffer
		testkit.Do(t, json.Compact(&compact, payload))
		want := map[string]any{
			"iss": claims.Issuer, "sub": claims.ClientID, "client_id": claims.ClientID, "client_uid": claims.Identity, "aud": claims.Audience,
			"iat": claims.IssuedAt.Unix(), "exp": claims.IssuedAt.Unix() + int64(claims.Lifetime/time.Second),
			"jti": base64.RawURLEncoding.EncodeToString(id),
		}
		if len(claims.Audience) == 1 {
			want["aud"] = claims.Audience[0]
		}
		if claims.Scope != "" {
			want["scope"] = claims.Scope
		}
		if uri != "" {
			want["status"] = map[string]any{"status_list": map[string]any{"uri": uri, "idx": index}}
		}
		testkit.Diff(t, "claims", reencode(t, want), reencode(t, json.RawMessage(payload)))
		if compact.Len() != len(payload) {
			t.Fatalf("the payload has white space: %s", payload)
		}
	})
}

// reencode returns v as JSON with sorted members.
func reencode(t *rapid.T, v any) string {
	data := testkit.Value(json.Marshal(v))(t)
	var members map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	testkit.Do(t, decoder.Decode(&members))
	return string(testkit.Value(json.Marshal(members))(t))
}
