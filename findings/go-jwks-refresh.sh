#!/usr/bin/env bash
# Finding: two Go libraries for key sets reject tokens of a published key for minutes, even if the
# issuer lets its key set be cached for less time.
#
# Software:  github.com/lestrrat-go/jwx/v3 v3.4.0 (with httprc/v3 v3.0.6),
#            github.com/MicahParks/keyfunc/v3 v3.9.2 (with jwkset v0.11.4).
# Guess:     With "Cache-Control: max-age=300", jwk.Cache loads a key set again after 5 minutes.
#            keyfunc loads it immediately for an unknown key ID, as its documentation says. If it has
#            just done that, it rejects the token immediately.
# Behavior:  jwk.Cache has a minimum of 15 minutes, which a shorter max-age doesn't change. A longer one
#            counts, so a new key can also be unknown for two hours.
#            keyfunc loads the key set for an unknown key ID at most once in 5 minutes. During the first
#            4 minutes after that, it immediately rejects a token with another new key. In the fifth
#            minute, the verification waits until the key set can be loaded, and then succeeds.
# Seen:      see "expected" below. The time is that of testing/synctest, so the script takes no minutes.
#
# What follows for an issuer: publish a key at least 15 minutes before it signs, send no longer max-age
# than that, and don't publish two new keys within 5 minutes.
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >go.mod <<'EOF'
module finding

go 1.25

require (
	github.com/MicahParks/jwkset v0.11.4
	github.com/MicahParks/keyfunc/v3 v3.9.2
	github.com/golang-jwt/jwt/v5 v5.3.1
	github.com/lestrrat-go/httprc/v3 v3.0.6
	github.com/lestrrat-go/jwx/v3 v3.4.0
)
EOF

cat >finding_test.go <<'EOF'
package finding

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"github.com/lestrrat-go/httprc/v3"
	"github.com/lestrrat-go/jwx/v3/jwk"
)

const url = "https://issuer.example/jwks"

// issuer is a transport that answers with a key set.
type issuer struct {
	t      *testing.T
	maxAge time.Duration
	keys   []jwk.Key
}

func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := json.Marshal(map[string]any{"keys": i.keys})
	header := http.Header{
		"Content-Type":  {"application/jwk-set+json"},
		"Cache-Control": {fmt.Sprintf("max-age=%d", int(i.maxAge.Seconds()))},
		"Date":          {time.Now().UTC().Format(http.TimeFormat)},
	}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(bytes.NewReader(body)), Request: r, ProtoMajor: 1, ProtoMinor: 1}, err
}

func (i *issuer) add(id string) *ecdsa.PrivateKey {
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(i.t)
	public := must(jwk.Import(private.Public()))(i.t)
	for name, value := range map[string]string{"kid": id, "alg": "ES256", "use": "sig"} {
		must(0, public.Set(name, value))(i.t)
	}
	i.keys = append(i.keys, public)
	return private
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func inBubble(t *testing.T, f func(t *testing.T, ctx context.Context)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f(t, ctx)
		cancel()
		synctest.Wait()
	})
}

func TestJWX(t *testing.T) {
	for _, maxAge := range []time.Duration{5 * time.Minute, 2 * time.Hour} {
		inBubble(t, func(t *testing.T, ctx context.Context) {
			i := &issuer{t: t, maxAge: maxAge}
			i.add("old")
			cache := must(jwk.NewCache(ctx, httprc.NewClient()))(t)
			must(0, cache.Register(ctx, url, jwk.WithHTTPClient(&http.Client{Transport: i})))(t)
			set := must(cache.CachedSet(url))(t)
			i.add("new")
			minutes := 0
			for ; minutes < 24*60; minutes++ {
				if _, found := set.LookupKeyID("new"); found {
					break
				}
				time.Sleep(time.Minute)
			}
			fmt.Printf("jwx, max-age %s: the new key is known after %d minutes\n", maxAge, minutes-minutes%5)
		})
	}
}

func TestKeyfunc(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		i := &issuer{t: t, maxAge: 5 * time.Minute}
		i.add("old")
		keys := must(keyfunc.NewDefaultOverrideCtx(ctx, []string{url}, keyfunc.Override{Client: &http.Client{Transport: i}}))(t)
		verify := func(id string, key *ecdsa.PrivateKey) {
			token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"sub": "client"})
			token.Header["kid"] = id
			signed := must(token.SignedString(key))(t)
			began := time.Now()
			_, err := jwt.Parse(signed, keys.Keyfunc)
			outcome := "accepted"
			if err != nil {
				outcome, _, _ = strings.Cut(err.Error(), "\n")
			}
			fmt.Printf("keyfunc, %s new key: after %s: %s\n", id, time.Since(began).Round(time.Second), outcome)
		}
		verify("first", i.add("first"))
		second := i.add("second")
		for range 5 {
			verify("second", second)
			time.Sleep(time.Minute)
		}
	})
}
EOF

go mod tidy >/dev/null 2>&1
go list -m github.com/lestrrat-go/jwx/v3 github.com/MicahParks/keyfunc/v3
seen=$(go test -count=1 -v . | grep -E '^(jwx|keyfunc)')
printf '%s\n' "$seen"

refused='after 0s: token is unverifiable: error while executing keyfunc: failed to wait for JWK Set refresh rate limiter due to error: rate: Wait(n=1) would exceed context deadline'
expected="jwx, max-age 5m0s: the new key is known after 15 minutes
jwx, max-age 2h0m0s: the new key is known after 120 minutes
keyfunc, first new key: after 0s: accepted
keyfunc, second new key: $refused
keyfunc, second new key: $refused
keyfunc, second new key: $refused
keyfunc, second new key: $refused
keyfunc, second new key: after 1m0s: accepted"
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
