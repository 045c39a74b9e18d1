package verify_test

import (
	"crypto"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/realmkeeper/realmkeeper/api/verify"
)

// TestSignatureIsVerifiedOnce checks that only the signature is remembered. All tokens have an invalid one, so an
// error says which other check rejects them.
func TestSignatureIsVerifiedOnce(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		claims object
		want   error
	}{
		"valid":           {nil, nil},
		"other issuer":    {object{"iss": issuer + "2"}, verify.ErrIssuer},
		"other audience":  {object{"aud": audience + "/"}, verify.ErrAudience},
		"expired":         {object{"exp": now.Unix()}, verify.ErrExpired},
		"from the future": {object{"iat": now.Add(time.Minute).Unix()}, verify.ErrNotYetValid},
		"delegated":       {object{"sub": "ext:corporate:alice"}, verify.ErrDelegated},
		"bound to a key":  {object{"cnf": object{"jkt": "x"}}, verify.ErrProof},
		"of another list": {object{"status": object{"status_list": object{"uri": issuer + "2/oauth2/status/1", "idx": 0}}}, verify.ErrStatus},
		"revoked":         {status(7), verify.ErrRevoked},
		"not in the list": {status(5000), verify.ErrListTooShort},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRealm(t)
			r.publish(r.list(r.listClaims(nil, 7)))
			v := r.verifier(nil)
			payload := encode(t, r.claims(test.claims))
			token := signPayload(t, newKey(t).Key, r.header(nil), payload)
			if _, err := v.Verify(t.Context(), token); !errors.Is(err, verify.ErrSignature) || v.Remembers(token) {
				t.Fatal("the signature was not checked:", err)
			}
			if !v.Remember(token, r.key().KeyID, payload) {
				t.Fatal("no key, or malformed claims")
			}
			for range 3 {
				if _, err := v.Verify(t.Context(), token); !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
			}
		})
	}
}

// TestRejectedTokensAreNotRemembered checks that tokens that are forged, or that aren't for this API, take no space.
func TestRejectedTokensAreNotRemembered(t *testing.T) {
	r := newRealm(t)
	v := r.verifier(nil)
	now := time.Now()
	for name, test := range map[string]struct {
		token string
		want  error
	}{
		"valid":           {r.token(nil), nil},
		"other key":       {sign(t, newKey(t).Key, r.header(nil), r.claims(nil)), verify.ErrSignature},
		"unknown key":     {sign(t, r.key().Key, r.header(object{"kid": "x"}), r.claims(nil)), verify.ErrSignature},
		"ID token":        {sign(t, r.key().Key, r.header(object{"typ": "JWT"}), r.claims(nil)), verify.ErrType},
		"no token":        {"x", verify.ErrMalformed},
		"no client_id":    {r.token(object{"client_id": nil}), verify.ErrMalformed},
		"other issuer":    {r.token(object{"iss": issuer + "2"}), verify.ErrIssuer},
		"other audience":  {r.token(object{"aud": audience + "/"}), verify.ErrAudience},
		"expired":         {r.token(object{"exp": now.Unix()}), verify.ErrExpired},
		"from the future": {r.token(object{"iat": now.Add(time.Minute).Unix()}), verify.ErrNotYetValid},
		"delegated":       {r.token(object{"sub": "ext:corporate:alice"}), verify.ErrDelegated},
	} {
		if _, err := v.Verify(t.Context(), test.token); !errors.Is(err, test.want) || v.Remembers(test.token) != (test.want == nil) {
			t.Errorf("%s: got %v, want %v; remembered: %t", name, err, test.want, v.Remembers(test.token))
		}
	}
}

// TestVariantsOfARememberedToken checks that nothing but the same token is accepted: not one with parts of another,
// nor one whose payload another key signed.
func TestVariantsOfARememberedToken(t *testing.T) {
	r, other := newRealm(t), newRealm(t)
	v := r.verifier(nil)
	payload := encode(t, r.claims(nil))
	token, another := signPayload(t, r.key().Key, r.header(nil), payload), r.token(nil)
	for _, token := range []string{token, another} {
		if _, err := v.Verify(t.Context(), token); err != nil || !v.Remembers(token) {
			t.Fatal("not remembered:", err)
		}
	}
	list := sign(t, r.listKey().Key, r.listHeader(), r.listClaims(nil))
	foreign := signPayload(t, other.key().Key, other.header(nil), payload)
	forged := []string{
		signPayload(t, other.key().Key, r.header(nil), payload), foreign,
		signPayload(t, []byte("x"), r.header(object{"alg": "none"}), payload),
		signPayload(t, r.key().Key, r.header(object{"typ": "JWT"}), payload),
		token + ".", "." + token, " " + token, strings.ToUpper(token),
	}
	for _, from := range []string{another, list, foreign, ".."} {
		for i := range 3 {
			parts, replacement := strings.Split(token, "."), strings.Split(from, ".")[i]
			if parts[i] != replacement {
				parts[i] = replacement
				forged = append(forged, strings.Join(parts, "."))
			}
		}
	}
	for _, forged := range forged {
		for range 2 {
			if claims, err := v.Verify(t.Context(), forged); err == nil || claims != nil || v.Remembers(forged) {
				t.Errorf("accepted or remembered %s: %v", forged, err)
			}
		}
	}
	if _, err := v.Verify(t.Context(), token); err != nil || !v.Remembers(token) {
		t.Error(err)
	}
}

// TestClockOfARememberedToken checks that a token that was accepted isn't after its time, nor before it.
func TestClockOfARememberedToken(t *testing.T) {
	r := newRealm(t)
	var ahead atomic.Int64 // nanoseconds
	v := r.verifier(func(o *verify.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	token := r.token(nil)
	for _, step := range []struct {
		ahead time.Duration
		want  error
	}{{0, nil}, {9 * time.Minute, nil}, {10 * time.Minute, verify.ErrExpired}, {0, nil}, {-time.Minute, verify.ErrNotYetValid}, {0, nil}} {
		ahead.Store(int64(step.ahead))
		if _, err := v.Verify(t.Context(), token); !errors.Is(err, step.want) || !v.Remembers(token) {
			t.Errorf("at %s: got %v, want %v; remembered: %t", step.ahead, err, step.want, v.Remembers(token))
		}
	}
}

// TestAudiencesOfARememberedToken checks that verifiers for different APIs share nothing.
func TestAudiencesOfARememberedToken(t *testing.T) {
	r := newRealm(t)
	orders, stock := r.verifier(nil), r.verifier(func(o *verify.Options) { o.Audience = "https://stock.acme.example" })
	token := r.token(nil)
	for range 2 {
		if _, err := orders.Verify(t.Context(), token); err != nil || !orders.Remembers(token) {
			t.Error(err)
		}
		if _, err := stock.Verify(t.Context(), token); !errors.Is(err, verify.ErrAudience) || stock.Remembers(token) {
			t.Error(err)
		}
	}
}

// TestKeyOfARememberedToken checks that a token is rejected as soon as its key isn't loaded any more, and isn't
// forgotten if it is.
func TestKeyOfARememberedToken(t *testing.T) {
	rsa := func(r *realm, algorithm jose.SignatureAlgorithm) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.keys = []jose.JSONWebKey{{Key: keyPairs()[algorithm], KeyID: "rsa", Algorithm: string(algorithm), Use: "sig"}}
	}
	for name, test := range map[string]struct {
		change func(*realm)
		want   error
	}{
		"the same":            {func(*realm) {}, nil},
		"one more":            {func(r *realm) { r.addKey(newKey(t)) }, nil},
		"withdrawn":           {(*realm).replaceKeys, verify.ErrSignature},
		"another with its ID": {func(r *realm) { r.keys[0].Key = newKey(t).Key }, verify.ErrSignature},
		"another algorithm":   {func(r *realm) { rsa(r, jose.PS256) }, verify.ErrSignature},
		"unavailable":         {func(r *realm) { r.respond(keysPath, unavailable) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRealm(t)
				if name == "another algorithm" {
					rsa(r, jose.RS256)
				}
				v := r.verifier(nil)
				token := r.token(object{"exp": time.Now().Add(time.Hour).Unix()})
				stranger := sign(t, newKey(t).Key, r.header(object{"kid": "x"}), r.claims(nil))
				if _, err := v.Verify(t.Context(), token); err != nil || !v.Remembers(token) {
					t.Fatal(err)
				}
				test.change(r)
				for range 3 { // loads the keys each time
					time.Sleep(5 * time.Second)
					if _, err := v.Verify(t.Context(), stranger); err == nil {
						t.Error("accepted an unknown key")
					}
					if v.Remembers(token) != (test.want == nil) {
						t.Errorf("remembered: %t", v.Remembers(token))
					}
				}
				for range 2 { // the second one after a load in the background
					time.Sleep(5 * time.Minute)
					if _, err := v.Verify(t.Context(), token); !errors.Is(err, test.want) {
						t.Errorf("got %v, want %v", err, test.want)
					}
					synctest.Wait()
				}
				if got := r.requestsOf(keysPath); got < 6 {
					t.Errorf("the keys were loaded %d times", got)
				}
			})
		})
	}
}

// TestWithdrawnKeyReturns checks that a key that the issuer publishes again is like a new one.
func TestWithdrawnKeyReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		v := r.verifier(nil)
		token, keys := r.token(nil), slices.Clone(r.keys)
		stranger := sign(t, newKey(t).Key, r.header(object{"kid": "x"}), r.claims(nil))
		for _, step := range []struct {
			keys []jose.JSONWebKey
			want error
		}{{keys, nil}, {[]jose.JSONWebKey{newKey(t)}, verify.ErrSignature}, {keys, nil}} {
			r.keys = step.keys
			time.Sleep(5 * time.Second)
			_, _ = v.Verify(t.Context(), stranger)
			for range 2 {
				if _, err := v.Verify(t.Context(), token); !errors.Is(err, step.want) || v.Remembers(token) != (step.want == nil) {
					t.Errorf("got %v, want %v; remembered: %t", err, step.want, v.Remembers(token))
				}
			}
		}
	})
}

// TestRevocationOfARememberedToken checks that the status list decides each time.
func TestRevocationOfARememberedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, nil)
		v := l.verifier(nil)
		token := l.token(status(7))
		for _, step := range []struct {
			revoked []int
			want    error
		}{{nil, nil}, {[]int{7}, verify.ErrRevoked}, {nil, nil}} {
			l.revoke(step.revoked...)
			time.Sleep(11 * time.Second)
			synctest.Wait()
			if _, err := v.Verify(t.Context(), token); !errors.Is(err, step.want) || !v.Remembers(token) {
				t.Errorf("got %v, want %v; remembered: %t", err, step.want, v.Remembers(token))
			}
		}
	})
}

// TestProofOfARememberedToken checks that each request needs a new proof and the scopes.
func TestProofOfARememberedToken(t *testing.T) {
	r := newRealm(t)
	v := r.verifier(func(o *verify.Options) { o.DPoP.URL = audience })
	h, thief := holder{t, jose.ES256, newKey(t).Key.(crypto.Signer)}, holder{t, jose.ES256, newKey(t).Key.(crypto.Signer)}
	token := r.token(h.bound())
	request := func(scheme string, proofs ...string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/orders", http.NoBody)
		r.Header = http.Header{"Authorization": {scheme + " " + token}, "Dpop": proofs}
		return r
	}
	for range 2 {
		used := h.proof(token, nil, nil)
		if _, err := v.VerifyRequest(request("DPoP", used), "orders.read"); err != nil || !v.Remembers(token) {
			t.Fatal(err)
		}
		if _, err := v.VerifyRequest(request("DPoP", h.proof(token, nil, nil)), "orders.delete"); !errors.Is(err, verify.ErrScope) {
			t.Error(err)
		}
		if _, err := v.VerifyRequest(request("Bearer")); !errors.Is(err, verify.ErrScheme) {
			t.Error(err)
		}
		if _, err := v.Verify(t.Context(), token); !errors.Is(err, verify.ErrProof) {
			t.Error(err)
		}
		for name, proofs := range map[string][]string{
			"none": nil, "used before": {used}, "of another key": {thief.proof(token, nil, nil)},
			"of another token": {h.proof(r.token(nil), nil, nil)}, "old": {h.proof(token, nil, object{"iat": time.Now().Add(-2 * time.Minute).Unix()})},
		} {
			if _, err := v.VerifyRequest(request("DPoP", proofs...)); !errors.Is(err, verify.ErrProof) {
				t.Errorf("proof %s: %v", name, err)
			}
		}
	}
}

// overwrite is a claim that overwrites what it is decoded from.
type overwrite struct{}

func (overwrite) UnmarshalJSON(data []byte) error {
	for i := range data {
		data[i] = '0'
	}
	return nil
}

// TestClaimsAreTheCallersOwn checks that what a caller does to its claims has no effect on the next one.
func TestClaimsAreTheCallersOwn(t *testing.T) {
	r := newRealm(t)
	v := r.verifier(func(o *verify.Options) { o.Delegated = true })
	token := r.token(object{
		"aud": []string{audience, "https://stock.acme.example"}, "plan": "gold",
		"act": object{"iss": issuer, "sub": "acme-apps.billing", "act": object{"iss": issuer, "sub": "acme-apps.portal"}},
	})
	var want string
	for range 3 {
		claims, err := v.Verify(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		var all map[string]any
		if err := claims.Decode(&all); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal([]any{claims, all})
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = string(got)
		}
		if string(got) != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		for _, values := range [][]string{claims.Audience, claims.Scopes} {
			slices.Reverse(values)
			values[0] = "changed"
			_ = append(values[:1], "changed")
		}
		slices.Reverse(claims.Actors)
		claims.Actors[0].Subject = "changed"
		claims.Subject, claims.ClientID, claims.ExpiresAt, claims.JKT = "changed", "changed", time.Time{}, "changed"
		var overwritten map[string]overwrite
		if err := claims.Decode(&overwritten); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMemoryOfTokensIsBounded checks the size for many tokens, whatever claims they have, and that a token that is used
// again isn't displaced by them. All of them must be valid.
func TestMemoryOfTokensIsBounded(t *testing.T) {
	actors := object{"iss": issuer, "sub": "acme-apps.billing"}
	for range 30 {
		actors = object{"iss": issuer, "sub": "acme-apps.billing", "client_uid": rand.Text(), "act": actors}
	}
	for name, test := range map[string]struct {
		tokens int
		claims object
	}{
		"of usual size":           {1500, nil},
		"with other claims":       {1500, object{"x": strings.Repeat("x", 2<<10)}},
		"with a long scope":       {150, object{"scope": strings.Repeat("x", 10<<10)}},
		"with many scopes":        {40, object{"scope": strings.Repeat("x ", 5<<10)}},
		"with many audiences":     {80, object{"aud": slices.Repeat([]string{audience, "x", "y", "z"}, 200)}},
		"with many actors":        {200, object{"act": actors}},
		"of a list":               {1500, status(7)},
		"with texts of all sizes": {1000, object{"sub": "s", "client_id": "s", "client_uid": "s", "scope": strings.Repeat("a bc ", 10)}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRealm(t)
			r.publish(r.list(r.listClaims(nil)))
			v := r.verifier(func(o *verify.Options) { o.Delegated = true })
			verified := func(token string) {
				if _, err := v.Verify(t.Context(), token); err != nil {
					t.Fatal(err)
				}
			}
			first, hot := r.token(nil), r.token(nil)
			verified(first)
			verified(hot)
			before, most, remembered := heap(), int64(0), 0
			var last string
			for i := range test.tokens {
				if last = r.token(test.claims); len(last) > 16<<10 {
					t.Fatalf("a token has %d bytes", len(last))
				}
				verified(last)
				if !v.Remembers(hot) {
					t.Fatalf("the token in use was forgotten after %d others", i)
				}
				verified(hot)
				if v.Remembers(first) {
					remembered++
				}
				if i%(test.tokens/20) == 0 {
					most = max(most, heap()-before)
				}
			}
			t.Logf("%d tokens of %d bytes, %d KiB at most, the first one was remembered for %d", test.tokens, len(last), most>>10, remembered)
			const others = 64 << 10 // what isn't the memory of tokens
			if most > 1<<20+others || v.Remembers(first) || !v.Remembers(last) {
				t.Errorf("%d bytes, remembered: first %t, last %t", most, v.Remembers(first), v.Remembers(last))
			}
		})
	}
}

// TestUsedTokensDisplaceNoOthers checks that a token takes space once, however often it is used.
func TestUsedTokensDisplaceNoOthers(t *testing.T) {
	r := newRealm(t)
	v := r.verifier(nil)
	first, hot := r.token(nil), r.token(nil)
	for _, token := range append([]string{first}, slices.Repeat([]string{hot}, 5000)...) {
		if _, err := v.Verify(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	if !v.Remembers(first) || !v.Remembers(hot) {
		t.Error("a token was forgotten")
	}
}

// heap returns the bytes in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestRememberedTokensConcurrently is for the race detector: callers change their claims, while others verify the
// same tokens and the keys are loaded again.
func TestRememberedTokensConcurrently(t *testing.T) {
	r := newRealm(t)
	var calls atomic.Int64
	v := r.verifier(func(o *verify.Options) { // the clock is fast, so that keys are loaded several times
		o.Now = func() time.Time { return time.Now().Add(time.Duration(calls.Add(1)) * time.Second / 10) }
	})
	var tokens []string
	for range 8 {
		tokens = append(tokens, r.token(object{"aud": []string{audience, "https://stock.acme.example"}, "exp": time.Now().Add(time.Hour).Unix()}))
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 200 {
				claims, err := v.Verify(t.Context(), tokens[i%len(tokens)])
				if err != nil {
					t.Error(err)
					return
				}
				slices.Sort(claims.Audience)
				claims.Scopes = append(claims.Scopes[:1], rand.Text())
				var fixed map[string]any
				if err := claims.Decode(&fixed); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}
