package token_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// signedWith returns a token of a client that is valid for a minute.
func signedWith(t testing.TB, signer *token.Signer, change func(*token.Claims)) string {
	t.Helper()
	claims := token.Claims{Issuer: issuer, ClientID: "client", Audience: []string{"orders"}, IssuedAt: now, Lifetime: time.Minute}
	if change != nil {
		change(&claims)
	}
	jwt, _, err := signer.Sign(claims, rand.Reader)
	testkit.Do(t, err)
	return jwt
}

// withID returns a key with an ID, which isn't its thumbprint, and a token that it signed.
func withID(t testing.TB, id string) (public signingkey.PublicKey, jwt string) {
	t.Helper()
	key := newKey(t, signingkey.ES256)
	var members map[string]any
	testkit.Do(t, json.Unmarshal(testkit.Value(key.Public().MarshalJSON())(t), &members))
	delete(members, "kid")
	public = testkit.Value(signingkey.ImportJWK(testkit.Value(json.Marshal(members))(t), id, signingkey.ES256))(t)
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"` + id + `","typ":"at+jwt"}`))
	input := header + "." + strings.Split(signedWith(t, token.NewSigner(key.Signer()), nil), ".")[1]
	return public, input + "." + base64.RawURLEncoding.EncodeToString(testkit.Value(key.Signer().Sign(nil, []byte(input)))(t))
}

func verifierOf(t testing.TB, issuer string, keys ...signingkey.PublicKey) *token.Verifier {
	t.Helper()
	return testkit.Value(token.NewVerifier(issuer, keys))(t)
}

// A remembered token is valid for the same issuer, key, and time only.
func TestRememberedTokens(t *testing.T) {
	key, other := newKey(t, signingkey.ES256), newKey(t, signingkey.ES256)
	signer := token.NewSigner(key.Signer())
	own := verifierOf(t, issuer, key.Public())
	for name, tc := range map[string]struct {
		verifier *token.Verifier
		later    time.Duration
		want     error
	}{
		"unchanged":           {verifier: own},
		"the same key again":  {verifier: verifierOf(t, issuer, key.Public(), other.Public())},
		"key withdrawn":       {verifier: verifierOf(t, issuer, other.Public()), want: token.ErrInvalid},
		"another issuer":      {verifier: verifierOf(t, issuer+"2", key.Public()), want: token.ErrInvalid},
		"just before exp":     {verifier: own, later: 59 * time.Second},
		"exp":                 {verifier: own, later: time.Minute, want: token.ErrInvalid},
		"clock set back":      {verifier: own, later: -30 * time.Second},
		"clock set back more": {verifier: own, later: -31 * time.Second, want: token.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			memory, jwt := token.NewMemory(1<<20), signedWith(t, signer, nil)
			first := testkit.Value(own.Verify(memory, jwt, now))(t)
			again := testkit.Value(own.Verify(memory, jwt, now))(t)
			if &first.Payload[0] != &again.Payload[0] {
				t.Error("the token was not remembered")
			}
			got, err := tc.verifier.Verify(memory, jwt, now.Add(tc.later))
			if !errors.Is(err, tc.want) {
				t.Fatalf("got error %v, want %v", err, tc.want)
			}
			if err == nil {
				testkit.Diff(t, "content", first, got)
			}
			forgotten, err := tc.verifier.Verify(nil, jwt, now.Add(tc.later))
			testkit.Diff(t, "error without memory", tc.want, err, cmpopts.EquateErrors())
			testkit.Diff(t, "content without memory", forgotten, got)
		})
	}
}

// The key counts, and not its ID, which another key can have.
func TestRememberedKey(t *testing.T) {
	key, jwt := withID(t, "same")
	other, _ := withID(t, "same")
	memory := token.NewMemory(1 << 20)
	testkit.Value(verifierOf(t, issuer, key).Verify(memory, jwt, now))(t)
	if _, err := verifierOf(t, issuer, other).Verify(memory, jwt, now); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("with another key of the same ID: got error %v, want %v", err, token.ErrInvalid)
	}
}

// Only a valid token is remembered, and no other is taken for it.
func TestForgedVariantsAreNotRemembered(t *testing.T) {
	for _, algorithm := range []signingkey.Algorithm{signingkey.ES256, signingkey.EdDSA, signingkey.RS256} {
		t.Run(string(algorithm), func(t *testing.T) {
			key := newKey(t, algorithm)
			signer, verifier, memory := token.NewSigner(key.Signer()), verifierOf(t, issuer, key.Public()), token.NewMemory(1<<20)
			valid := signedWith(t, signer, nil)
			testkit.Value(verifier.Verify(memory, valid, now))(t)
			parts, another := strings.Split(valid, "."), strings.Split(signedWith(t, signer, nil), ".")
			otherKey := newKey(t, algorithm)
			foreign := strings.Split(signedWith(t, token.NewSigner(otherKey.Signer()), nil), ".")
			variants := []string{
				"", ".", "..", parts[0], parts[0] + ".", parts[0] + "..", parts[0] + "." + parts[1], parts[0] + "." + parts[1] + ".",
				valid + ".", valid + "." + parts[2], "." + valid, valid + "=", valid + "\n", " " + valid, strings.ToLower(valid), strings.Repeat(valid, 2),
				another[0] + "." + another[1] + "." + parts[2], another[0] + "." + parts[1] + "." + another[2],
				foreign[0] + "." + parts[1] + "." + parts[2], parts[0] + "." + foreign[1] + "." + foreign[2], parts[0] + "." + parts[1] + "." + foreign[2], strings.Join(foreign, "."),
				// Expired, not yet valid, of another issuer, and for another subject without a rule.
				signedWith(t, signer, func(c *token.Claims) { c.IssuedAt = now.Add(-time.Hour) }),
				signedWith(t, signer, func(c *token.Claims) { c.IssuedAt = now.Add(time.Hour) }),
				signedWith(t, signer, func(c *token.Claims) { c.Issuer = "https://example.com" }),
				signedWith(t, signer, func(c *token.Claims) { c.Delegation = &token.Delegation{Subject: "other"} }),
			}
			for i := range valid {
				for _, c := range []string{"A", "B", "_", "=", ".", "\n", "", string(valid[i] ^ 1)} {
					variants = append(variants, valid[:i]+c+valid[i+1:])
				}
			}
			for range 100 { // 16 KiB that look like a token
				variants = append(variants, parts[0]+"."+strings.Repeat("A", 4<<10*3)+"."+fmt.Sprintf("%0*d", 4<<10, mathrand.Uint64()))
			}
			for _, variant := range variants {
				if _, err := verifier.Verify(memory, variant, now); (err == nil) != (variant == valid) {
					t.Errorf("token %q: got error %v", variant, err)
				}
			}
			testkit.Diff(t, "remembered tokens", 1, memory.Len())
		})
	}
}

// The memory is bounded in bytes, whatever clients present, and tokens in use stay.
func TestMemoryOfVerifiedTokens(t *testing.T) {
	key := newKey(t, signingkey.ES256)
	signer, verifier := token.NewSigner(key.Signer()), verifierOf(t, issuer, key.Public())
	chain := &token.Actor{Issuer: issuer, Subject: "actor", ClientUID: "uid", Act: &token.Actor{Issuer: issuer, Subject: "actor", ClientUID: "uid"}}
	for name, change := range map[string]func(*token.Claims, int){
		"of one client":       func(*token.Claims, int) {},
		"of distinct clients": func(c *token.Claims, i int) { c.ClientID, c.Identity = fmt.Sprint("client-", i), fmt.Sprint("uid-", i) },
		"with many scopes":    func(c *token.Claims, _ int) { c.Scope = strings.Repeat("orders:read ", 100) },
		"with many audiences": func(c *token.Claims, _ int) {
			c.Audience = strings.Split(strings.Repeat("https://a ", 16), " ")
		},
		"delegated": func(c *token.Claims, _ int) {
			c.Delegation = &token.Delegation{Subject: "subject", Act: chain, Rules: []token.Rule{{Name: "rule", Digest: "digest"}, {Name: "rule", Digest: "digest"}}}
		},
		"with claims of 12 KiB": func(c *token.Claims, _ int) { c.Extra = []byte(`,"text":"` + strings.Repeat("x", 12<<10) + `"`) },
	} {
		t.Run(name, func(t *testing.T) {
			const size = 256 << 10
			memory, inUse := token.NewMemory(size), signedWith(t, signer, nil)
			first := testkit.Value(verifier.Verify(memory, inUse, now))(t)
			before, remembered := heap(), 0
			for i := range 300 {
				jwt := signedWith(t, signer, func(c *token.Claims) { change(c, i) })
				testkit.Value(verifier.Verify(memory, jwt, now))(t)
				if i%4 != 0 {
					continue
				}
				again := testkit.Value(verifier.Verify(memory, inUse, now))(t)
				if &again.Payload[0] != &first.Payload[0] {
					t.Fatal("a token in use was forgotten")
				}
				remembered = max(remembered, memory.Len())
			}
			if grown := heap() - before; grown > size {
				t.Errorf("the heap has grown by %d KiB", grown>>10)
			}
			if remembered < 8 {
				t.Errorf("at most %d tokens were remembered", remembered)
			}
			runtime.KeepAlive(memory)
		})
	}
}

// A token that is larger than a generation isn't remembered.
func TestTooLargeForTheMemory(t *testing.T) {
	key := newKey(t, signingkey.EdDSA)
	memory := token.NewMemory(1 << 10)
	testkit.Value(verifierOf(t, issuer, key.Public()).Verify(memory, signedWith(t, token.NewSigner(key.Signer()), nil), now))(t)
	testkit.Diff(t, "remembered tokens", 0, memory.Len())
}

func TestConcurrentVerification(t *testing.T) {
	key := newKey(t, signingkey.EdDSA)
	signer, verifier, memory := token.NewSigner(key.Signer()), verifierOf(t, issuer, key.Public()), token.NewMemory(16<<10)
	var jwts []string
	for range 40 {
		jwts = append(jwts, signedWith(t, signer, nil))
	}
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 200 {
				if got, err := verifier.Verify(memory, jwts[mathrand.IntN(len(jwts))], now); err != nil || got.ClientID != "client" || !got.HasAudience("orders") {
					t.Errorf("got %+v, %v", got, err)
				}
			}
		})
	}
	running.Wait()
}
