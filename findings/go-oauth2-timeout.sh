#!/usr/bin/env bash
# Finding: the timeout of an HTTP client doesn't limit a request that first has to get a token with
# golang.org/x/oauth2, and neither does the context of the request.
#
# Software:  golang.org/x/oauth2 v0.37.0, package clientcredentials.
# Guess:     With http.Client.Timeout of one second, or a request context with that deadline, a call
#            ends after a second, whichever of the two servers doesn't respond.
# Behavior:  While the token endpoint doesn't respond, the call waits for it, in this test for 5
#            seconds and otherwise without an end. Only then does it fail because of its timeout.
#            Transport.RoundTrip calls Token, which has no context but the one that was given when the
#            client was created. The timeout of the HTTP client in that context limits the token
#            request.
# Seen:      see "expected" below.
#
# What follows for a client: give clientcredentials.Config.Client a context with an HTTP client that
# has a timeout (oauth2.HTTPClient), also if the outer client has one.
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
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

const (
	limit = time.Second
	slow  = 5 * time.Second
)

// call sends one request to an API, and says which of the two durations it took.
func call(slowTokens bool, ctx context.Context, timeout time.Duration, requestTimeout time.Duration) string {
	wait := func(slowly bool) {
		if slowly {
			time.Sleep(slow)
		}
	}
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wait(slowTokens)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"t","token_type":"bearer","expires_in":300}`)
	}))
	defer tokens.Close()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { wait(!slowTokens) }))
	defer api.Close()
	config := clientcredentials.Config{ClientID: "id", ClientSecret: "secret", TokenURL: tokens.URL, AuthStyle: oauth2.AuthStyleInHeader}
	client := config.Client(ctx)
	client.Timeout = timeout
	requestContext := context.Background()
	if requestTimeout > 0 {
		var cancel context.CancelFunc
		requestContext, cancel = context.WithTimeout(requestContext, requestTimeout)
		defer cancel()
	}
	request, err := http.NewRequestWithContext(requestContext, http.MethodGet, api.URL, http.NoBody)
	if err != nil {
		return err.Error()
	}
	start := time.Now()
	response, err := client.Do(request)
	if err == nil {
		response.Body.Close()
	}
	return fmt.Sprintf("%s, failed: %t", time.Since(start).Round(time.Second), err != nil)
}

func main() {
	background := context.Background()
	fmt.Println("slow API, Timeout 1s:                       ", call(false, background, limit, 0))
	fmt.Println("slow API, request context 1s:               ", call(false, background, 0, limit))
	fmt.Println("slow token endpoint, Timeout 1s:            ", call(true, background, limit, 0))
	fmt.Println("slow token endpoint, request context 1s:    ", call(true, background, 0, limit))
	inner := context.WithValue(background, oauth2.HTTPClient, &http.Client{Timeout: limit})
	fmt.Println("slow token endpoint, client of the context: ", call(true, inner, 0, 0))
}
EOF

go mod tidy >/dev/null 2>&1
go list -m golang.org/x/oauth2
seen=$(go run .)
printf '%s\n' "$seen"

expected='slow API, Timeout 1s:                        1s, failed: true
slow API, request context 1s:                1s, failed: true
slow token endpoint, Timeout 1s:             5s, failed: true
slow token endpoint, request context 1s:     5s, failed: true
slow token endpoint, client of the context:  1s, failed: true'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
