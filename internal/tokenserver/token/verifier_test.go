package token_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

const issuer = "https://api.example.com/acme"

// Verify returns the signed claims for every algorithm and every form of the claims.
func TestVerifyReturnsSignedClaims(t *testing.T) {
	for _, algorithm := range signingkey.Algorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			key, other := newKey(t, algorithm), newKey(t, signingkey.EdDSA)
			signer := token.NewSigner(key.Signer())
			verifier := token.NewVerifier(issuer, []signingkey.PublicKey{other.Public(), key.Public()})
			for name, claims := range map[string]token.Claims{
				"one audience":  {Audience: []string{"orders"}},
				"two audiences": {Audience: []string{"https://orders.example.com/?a=b&c", "stock"}, Scope: "orders:read <&>"},
			} {
				claims.Issuer, claims.ClientID, claims.Identity, claims.IssuedAt, claims.Lifetime = issuer, "team.billing", "1-2", now, time.Minute
				signed, _, err := signer.Sign(claims, rand.Reader)
				if err != nil {
					t.Fatal(err)
				}
				got, err := verifier.Verify(signed, now)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				want := token.Verified{
					ClientID: claims.ClientID, Identity: claims.Identity, Audience: claims.Audience, Scope: claims.Scope,
					IssuedAt: now.Truncate(time.Second).Local(), ID: got.ID, Payload: part(t, signed, 1),
				}
				if diff := cmp.Diff(want, got); diff != "" || got.ID == "" {
					t.Errorf("%s, ID %q (-want +got):\n%s", name, got.ID, diff)
				}
				if _, err := verifier.Verify(signed, now.Add(time.Minute)); !errors.Is(err, token.ErrInvalid) {
					t.Errorf("%s at expiration: error %v, want %v", name, err, token.ErrInvalid)
				}
				if _, err := token.NewVerifier(issuer+"/", []signingkey.PublicKey{key.Public()}).Verify(signed, now); !errors.Is(err, token.ErrInvalid) {
					t.Errorf("%s with another issuer: error %v, want %v", name, err, token.ErrInvalid)
				}
			}
		})
	}
}

func TestVerifiedHas(t *testing.T) {
	v := token.Verified{Scope: "orders:read stock", Audience: []string{"orders"}}
	for scope, want := range map[string]bool{"orders:read": true, "stock": true, "orders": false, "read": false, "": false, "orders:read stock": false} {
		if v.HasScope(scope) != want {
			t.Errorf("HasScope(%q) = %t, want %t", scope, !want, want)
		}
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
	verifier := token.NewVerifier(issuer, []signingkey.PublicKey{key.Public()})
	f.Add(signed)
	f.Add("..")
	f.Add(signed[:len(signed)-1])
	f.Fuzz(func(t *testing.T, presented string) {
		verified, err := verifier.Verify(presented, now)
		if (err == nil) != (presented == signed) {
			t.Errorf("token %q: error %v", presented, err)
		}
		if err == nil && !json.Valid(verified.Payload) {
			t.Errorf("the payload is not valid JSON: %q", verified.Payload)
		}
	})
}
