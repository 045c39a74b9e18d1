package token_test

import (
	"crypto/rand"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// clients are clients whose tokens a Reuse issues.
type clients struct {
	reuse  *token.Reuse
	signer *token.Signer
	last   []token.Last
}

func newClients(t testing.TB, limit, number int) *clients {
	t.Helper()
	key := newKey(t, signingkey.ES256)
	return &clients{token.NewReuse(limit), token.NewSigner(key.Signer()), make([]token.Last, number)}
}

func (c *clients) sign(t testing.TB, client int, scope string) token.Issued {
	t.Helper()
	claims := token.Claims{Issuer: issuer, ClientID: "client", Audience: []string{"orders"}, Scope: scope, IssuedAt: now, Lifetime: time.Minute}
	return testkit.Value(c.reuse.Issue(c.signer, claims, &c.last[client], token.Credential{ID: "secret"}, rand.Reader))(t)
}

// The clients that have had a token for the longest time lose it.
func TestNumberOfLastTokensIsLimited(t *testing.T) {
	c := newClients(t, 4, 10)
	for range 3 {
		for client := range c.last {
			if c.sign(t, client, "a").Reused {
				t.Errorf("client %d has still its token", client)
			}
		}
		for client := 6; client < 10; client++ {
			if !c.sign(t, client, "a").Reused {
				t.Errorf("client %d has lost its token", client)
			}
		}
	}
}

// A client that varies its scopes replaces only its own token.
func TestOneClientReplacesOnlyItsOwnToken(t *testing.T) {
	c := newClients(t, 4, 4)
	for client := range c.last {
		c.sign(t, client, "a")
	}
	for i := range 100 {
		c.sign(t, 0, fmt.Sprint("scope-", i))
	}
	for client := 1; client < 4; client++ {
		if !c.sign(t, client, "a").Reused {
			t.Errorf("client %d has lost its token", client)
		}
	}
}

// A token is issued again only for the same second, and if everything else is the same that a request can change.
func TestWhatLastTokensDependOn(t *testing.T) {
	first := token.Claims{Issuer: issuer, ClientID: "client", Audience: []string{"orders", "stock"}, Scope: "a b", IssuedAt: now, Lifetime: time.Minute}
	for name, tc := range map[string]struct {
		change func(*token.Claims, *token.Credential)
		want   bool
	}{
		"nothing":              {func(*token.Claims, *token.Credential) {}, true},
		"time in this second":  {func(c *token.Claims, _ *token.Credential) { c.IssuedAt = now.Truncate(time.Second) }, true},
		"next second":          {func(c *token.Claims, _ *token.Credential) { c.IssuedAt = now.Add(time.Millisecond) }, false},
		"second before":        {func(c *token.Claims, _ *token.Credential) { c.IssuedAt = now.Add(-time.Second) }, false},
		"lifetime":             {func(c *token.Claims, _ *token.Credential) { c.Lifetime = time.Hour }, false},
		"scope":                {func(c *token.Claims, _ *token.Credential) { c.Scope = "a" }, false},
		"no scope":             {func(c *token.Claims, _ *token.Credential) { c.Scope = "" }, false},
		"audience":             {func(c *token.Claims, _ *token.Credential) { c.Audience = c.Audience[:1] }, false},
		"audience as scope":    {func(c *token.Claims, _ *token.Credential) { c.Audience, c.Scope = []string{"orders"}, "stock a b" }, false},
		"bound":                {func(c *token.Claims, _ *token.Credential) { c.JKT = "thumbprint" }, false},
		"delegated":            {func(c *token.Claims, _ *token.Credential) { c.Delegation = &token.Delegation{Subject: "client"} }, false},
		"secret":               {func(_ *token.Claims, by *token.Credential) { by.ID = "other" }, false},
		"key with the same ID": {func(_ *token.Claims, by *token.Credential) { by.Method = "self" }, false},
		"issuer":               {func(_ *token.Claims, by *token.Credential) { by.Issuer = "github" }, false},
		"subject":              {func(_ *token.Claims, by *token.Credential) { by.Subject = "repo" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClients(t, 1, 1)
			sign := func(claims token.Claims, by token.Credential) token.Issued {
				return testkit.Value(c.reuse.Issue(c.signer, claims, &c.last[0], by, rand.Reader))(t)
			}
			claims, by := first, token.Credential{ID: "secret"}
			issued := sign(claims, by)
			tc.change(&claims, &by)
			got := sign(claims, by)
			testkit.Diff(t, "reused", tc.want, got.Reused)
			testkit.Diff(t, "same token", tc.want, got.JWT == issued.JWT && got.ID == issued.ID)
		})
	}
}

// Nothing is issued again if no client has a last token, or with another key.
func TestSignerOfLastToken(t *testing.T) {
	for limit, want := range map[int]bool{0: false, 1: true} {
		c := newClients(t, limit, 1)
		c.sign(t, 0, "a")
		testkit.Diff(t, "reused", want, c.sign(t, 0, "a").Reused)
		key := newKey(t, signingkey.EdDSA)
		c.signer = token.NewSigner(key.Signer())
		testkit.Diff(t, "reused with another key", false, c.sign(t, 0, "a").Reused)
	}
}

// The memory for last tokens is bounded, whatever clients request.
func TestMemoryOfLastTokens(t *testing.T) {
	const part = 16 // of MaxLast and its memory
	c := newClients(t, token.MaxLast/part, 2*token.MaxLast/part)
	scope := strings.Repeat("x", 2600)
	if got := c.sign(t, 0, scope); len(got.JWT) > 4<<10 || len(got.JWT) < 3800 || !c.sign(t, 0, scope).Reused {
		t.Fatalf("a token of %d bytes is not one of the largest that are kept", len(got.JWT))
	}
	before := heap()
	for client := range c.last {
		c.sign(t, client, scope)
	}
	if grown := heap() - before; grown > (20<<20)/part {
		t.Errorf("the heap has grown by %d KiB", grown>>10)
	}
	for i := range c.last { // distinct tokens of one client
		c.sign(t, 0, scope+strconv.Itoa(i))
	}
	if grown := heap() - before; grown > (20<<20)/part {
		t.Errorf("after many tokens of one client, the heap has grown by %d KiB", grown>>10)
	}
	runtime.KeepAlive(c)
}

func heap() int {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// Clients sign at the same time, and lose their tokens meanwhile.
func TestConcurrentTokens(t *testing.T) {
	c := newClients(t, 4, 8)
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for i := range 200 {
				c.sign(t, i%8, "a")
				c.last[(i+3)%8].Drop()
			}
		})
	}
	running.Wait()
}
