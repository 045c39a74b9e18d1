#!/usr/bin/env bash
# Finding: until a program with golang.org/x/oauth2 has got its first token, it sends each token
# request twice if the token endpoint asks it to wait.
#
# Software:  golang.org/x/oauth2 v0.37.0, package clientcredentials.
# Guess:     A call of Token sends one request. If the token endpoint is overloaded (503), or limits
#            the client (429, Retry-After), the caller decides when to send the next one.
# Behavior:  With AuthStyle unset, the library takes every error, 429 and 503 included, as a sign that
#            the server wants the secret in the other place. It repeats the request immediately with
#            the secret in the body, whatever Retry-After says, and remembers nothing unless one of
#            them succeeds. After the first success, and with an AuthStyle, it sends one request.
# Seen:      see "expected" below.
#
# What follows: set AuthStyle. An issuer that counts failures counts a wrong secret of such a client
# twice, and an overloaded one gets twice as many requests of the clients that start at that time.
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >go.mod <<'EOF'
module finding

go 1.25

require golang.org/x/oauth2 v0.37.0
EOF

cat >main.go <<'EOF'
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// requests returns where the secret is in each request that one call of Token sends, after the token endpoint
// has responded to earlier calls with the given status.
func requests(style oauth2.AuthStyle, statuses ...int) (seen []string) {
	status := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		place := "body"
		if r.Header.Get("Authorization") != "" {
			place = "header"
		}
		seen = append(seen, place)
		w.Header().Set("Content-Type", "application/json")
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "60")
		}
		w.WriteHeader(status)
		if status == http.StatusOK {
			fmt.Fprint(w, `{"access_token":"t","token_type":"bearer","expires_in":1}`)
		} else {
			fmt.Fprint(w, `{"error":"temporarily_unavailable"}`)
		}
	}))
	defer server.Close()
	config := clientcredentials.Config{ClientID: "id", ClientSecret: "secret", TokenURL: server.URL, AuthStyle: style}
	for _, status = range statuses {
		seen = nil
		_, _ = config.Token(context.Background())
	}
	return seen
}

func main() {
	for _, status := range []int{200, 401, 429, 503} {
		fmt.Printf("%d: first call %v; second call %v; after a success %v; AuthStyleInHeader %v\n", status,
			requests(oauth2.AuthStyleAutoDetect, status), requests(oauth2.AuthStyleAutoDetect, status, status),
			requests(oauth2.AuthStyleAutoDetect, 200, status), requests(oauth2.AuthStyleInHeader, status))
	}
}
EOF

go mod tidy >/dev/null 2>&1
go list -m golang.org/x/oauth2
seen=$(go run .)
printf '%s\n' "$seen"

expected='200: first call [header]; second call [header]; after a success [header]; AuthStyleInHeader [header]
401: first call [header body]; second call [header body]; after a success [header]; AuthStyleInHeader [header]
429: first call [header body]; second call [header body]; after a success [header]; AuthStyleInHeader [header]
503: first call [header body]; second call [header body]; after a success [header]; AuthStyleInHeader [header]'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
