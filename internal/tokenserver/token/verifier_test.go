package token_test

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

const issuer = "https://api.example.com/acme"

func TestVerifiedHas(t *testing.T) {
	v := token.Verified{Scope: "orders:read stock", Audience: []string{"orders"}}
	for scope, want := range map[string]bool{"orders:read": true, "stock": true, "orders": false, "read": false, "": false, "orders:read stock": false} {
		testkit.Diff(t, "HasScope of "+scope, want, v.HasScope(scope))
	}
	if !v.HasAudience("orders") || v.HasAudience("order") || v.HasAudience("") {
		t.Error("HasAudience must match only the audience orders")
	}
	if (&token.Verified{}).HasScope("") {
		t.Error("a token without scopes has the empty scope")
	}
}

// FuzzVerify checks that only tokens signed by the realm are valid, and that no input causes a
// panic.
func FuzzVerify(f *testing.F) {
	key := newKey(f, signingkey.EdDSA)
	signed, _, err := token.NewSigner(key.Signer()).Sign(token.Claims{
		Issuer: issuer, ClientID: "billing", Audience: []string{"orders"}, IssuedAt: now, Lifetime: time.Minute,
	}, rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	verifier, memory := testkit.Value(token.NewVerifier(issuer, []signingkey.PublicKey{key.Public()}))(f), token.NewMemory(1<<20)
	f.Add(signed)
	f.Add("..")
	for at := range signed {
		for _, forged := range []string{"A", "B", "-", "=", "\n", ""} {
			f.Add(signed[:at] + forged + signed[at+1:])
		}
	}
	for part := range strings.SplitSeq(signed, ".") {
		f.Add(part)
	}
	f.Add(signed + "=")
	f.Add(signed + "." + signed)
	f.Fuzz(func(t *testing.T, presented string) {
		verified, err := verifier.Verify(memory, presented, now)
		if (err == nil) != (presented == signed) {
			t.Errorf("token %q: error %v", presented, err)
		}
		if err == nil && !json.Valid(verified.Payload) {
			t.Errorf("the payload is not valid JSON: %q", verified.Payload)
		}
	})
}
