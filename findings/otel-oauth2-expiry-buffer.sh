#!/usr/bin/env bash
# Finding: an OpenTelemetry Collector requests a new token for every export if tokens are valid for
# five minutes or less.
#
# Software:  github.com/open-telemetry/opentelemetry-collector-contrib/extension/oauth2clientauthextension
#            v0.161.0, with golang.org/x/oauth2.
# Guess:     The extension uses a token until shortly before it expires. x/oauth2, on which it is built,
#            renews it 10 seconds earlier.
# Behavior:  A token is used again only if it is valid for longer than expiry_buffer, which is five
#            minutes by default. A token that is valid for five minutes never is, so each request that
#            the extension authenticates first sends a token request. There is no warning.
# Seen:      see "expected" below.
#
# What follows for a collector: set expiry_buffer to less than the lifetime of the tokens. What follows
# for an issuer: short tokens multiply the token requests of collectors.
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >go.mod <<'EOS'
module finding

go 1.26

require github.com/open-telemetry/opentelemetry-collector-contrib/extension/oauth2clientauthextension v0.161.0
EOS

cat >main.go <<'EOS'
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/oauth2clientauthextension"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensionauth"
	"go.uber.org/zap"
)

// tokenRequests returns the number of token requests for ten exports with tokens of this lifetime.
func tokenRequests(lifetime, buffer time.Duration) (requests int) {
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"t","token_type":"bearer","expires_in":%d}`, int(lifetime.Seconds()))
	}))
	defer issuer.Close()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()

	factory := oauth2clientauthextension.NewFactory()
	config := factory.CreateDefaultConfig().(*oauth2clientauthextension.Config)
	config.ClientID, config.ClientSecret, config.TokenURL = "id", "secret", issuer.URL
	if buffer != 0 {
		config.ExpiryBuffer = buffer
	}
	settings := component.TelemetrySettings(componenttest.NewNopTelemetrySettings())
	settings.Logger = zap.NewNop()
	created, err := factory.Create(context.Background(), extension.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: settings}, config)
	check(err)
	check(created.Start(context.Background(), componenttest.NewNopHost()))
	transport, err := created.(extensionauth.HTTPClient).RoundTripper(http.DefaultTransport)
	check(err)
	for range 10 {
		response, err := (&http.Client{Transport: transport}).Get(receiver.URL)
		check(err)
		response.Body.Close()
	}
	return requests
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	for _, lifetime := range []time.Duration{10 * time.Minute, 5 * time.Minute, time.Minute} {
		fmt.Printf("10 exports with tokens of %s: %d token requests\n", lifetime, tokenRequests(lifetime, 0))
	}
	fmt.Printf("10 exports with tokens of 1m0s and expiry_buffer 30s: %d token requests\n", tokenRequests(time.Minute, 30*time.Second))
}
EOS

go mod tidy >/dev/null 2>&1
go list -m github.com/open-telemetry/opentelemetry-collector-contrib/extension/oauth2clientauthextension golang.org/x/oauth2
seen=$(go run .)
printf '%s\n' "$seen"

expected='10 exports with tokens of 10m0s: 1 token requests
10 exports with tokens of 5m0s: 10 token requests
10 exports with tokens of 1m0s: 10 token requests
10 exports with tokens of 1m0s and expiry_buffer 30s: 1 token requests'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
