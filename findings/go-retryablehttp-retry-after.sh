#!/usr/bin/env bash
# Finding: a client with hashicorp/go-retryablehttp waits for as long as Retry-After says, even for
# hours, whatever its RetryWaitMax.
#
# Software:  github.com/hashicorp/go-retryablehttp v0.7.8.
# Guess:     RetryWaitMax, the "maximum time to wait", is 30 seconds by default, so no wait is longer.
#            A Retry-After of an hour makes the client give up, or try again after 30 seconds.
# Behavior:  DefaultBackoff returns the value of Retry-After for 429 and 503, in seconds or as a date,
#            and compares it with no maximum. RetryWaitMax limits only the waits that the library
#            computes itself. The request, a POST too, is repeated after that time with the same body.
#            Only the context of the request ends the wait sooner.
# Seen:      see "expected" below. The time is that of testing/synctest, so the script takes no hours.
#
# What follows for a server: send short values. What follows for a client: give each request a context
# with a deadline.
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >go.mod <<'EOF'
module finding

go 1.25

require github.com/hashicorp/go-retryablehttp v0.7.8
EOF

cat >main_test.go <<'EOF'
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// limited responds with 429 or another status once, and then with 200.
type limited struct {
	status     int
	retryAfter string
	bodies     []string
}

func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	l.bodies = append(l.bodies, string(body))
	response := &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r}
	if len(l.bodies) == 1 {
		response.StatusCode = l.status
		response.Header.Set("Retry-After", l.retryAfter)
	}
	return response, nil
}

func TestFinding(t *testing.T) {
	for _, c := range []struct {
		status     int
		retryAfter string
	}{{429, ""}, {429, "5"}, {429, "3600"}, {503, "3600"}, {502, "3600"}, {429, "Sat, 01 Jan 2000 01:00:00 GMT"}, {429, "-1"}} {
		synctest.Test(t, func(t *testing.T) { // begins on 1 January 2000
			transport := &limited{status: c.status, retryAfter: c.retryAfter}
			client := retryablehttp.NewClient()
			client.Logger, client.HTTPClient = nil, &http.Client{Transport: transport}
			start := time.Now()
			response, err := client.Post("http://api.example", "application/x-www-form-urlencoded", bytes.NewBufferString("grant_type=client_credentials"))
			if err != nil {
				fmt.Println(err)
				return
			}
			response.Body.Close()
			fmt.Printf("%d, Retry-After %q: %d requests in %s, the same body: %t\n", c.status, c.retryAfter, len(transport.bodies),
				time.Since(start).Round(time.Second), transport.bodies[0] == transport.bodies[len(transport.bodies)-1])
		})
	}
}
EOF

go mod tidy >/dev/null 2>&1
go list -m github.com/hashicorp/go-retryablehttp
seen=$(go test -v -count=1 -run TestFinding . | grep requests)
printf '%s\n' "$seen"

expected='429, Retry-After "": 2 requests in 1s, the same body: true
429, Retry-After "5": 2 requests in 5s, the same body: true
429, Retry-After "3600": 2 requests in 1h0m0s, the same body: true
503, Retry-After "3600": 2 requests in 1h0m0s, the same body: true
502, Retry-After "3600": 2 requests in 1s, the same body: true
429, Retry-After "Sat, 01 Jan 2000 01:00:00 GMT": 2 requests in 1h0m0s, the same body: true
429, Retry-After "-1": 2 requests in 1s, the same body: true'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
