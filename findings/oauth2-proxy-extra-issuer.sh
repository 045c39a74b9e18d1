#!/usr/bin/env bash
# Finding: if an issuer is down while oauth2-proxy starts, oauth2-proxy rejects its tokens until it is
# restarted, unless they are signed with RS256.
#
# Software:  github.com/oauth2-proxy/oauth2-proxy/v7 v7.15.6, option extra_jwt_issuers.
# Guess:     oauth2-proxy ends with an error, and its supervisor starts it again. Or it loads the
#            metadata of the issuer later, and then accepts its tokens.
# Behavior:  If the metadata can't be loaded at start, oauth2-proxy assumes that the issuer has none, and
#            that its keys are at ISSUER/.well-known/jwks.json. Because it then doesn't know the signing
#            algorithms of the issuer either, it accepts only RS256, the default of go-oidc. Once the
#            issuer is back, it accepts tokens with RS256 and rejects all others. Nothing in the log says
#            that the metadata is missing. oidc_enabled_signing_algs doesn't count for these issuers.
# Seen:      see "expected" below.
#
# What follows for an API: name such an issuer as the provider instead (oidc_issuer_url), which doesn't
# start without it, or with skip_oidc_discovery, oidc_jwks_url, and oidc_enabled_signing_algs.
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >go.mod <<'EOS'
module finding

go 1.26

tool github.com/oauth2-proxy/oauth2-proxy/v7

require (
	github.com/go-jose/go-jose/v4 v4.1.4
	github.com/oauth2-proxy/oauth2-proxy/v7 v7.15.6
)
EOS

cat >main.go <<'EOS'
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

var (
	address = free()
	proxy   = free()
	issuer  = "http://" + address
	keys    jose.JSONWebKeySet
)

func main() {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	check(err)
	es256, rs256 := token(jose.ES256, ec, ec.Public()), token(jose.RS256, rs, rs.Public())

	stop := start()
	defer func() { stop() }()
	serve()
	report("issuer down at start, then up", es256, rs256)
	stop()
	stop = start()
	report("after a restart", es256, rs256)
}

// start starts oauth2-proxy, and waits until it listens.
func start() (stop func()) {
	command := exec.Command("./oauth2-proxy", "--http-address="+proxy, "--upstream=static://200", "--email-domain=*", "--api-route=^/",
		"--provider=github", "--client-id=none", "--client-secret=none", "--cookie-secret=0123456789abcdef0123456789abcdef",
		"--skip-jwt-bearer-tokens", "--extra-jwt-issuers="+issuer+"=api")
	check(command.Start())
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		connection, err := net.Dial("tcp", proxy)
		if err == nil {
			connection.Close()
			break
		}
		if time.Now().After(deadline) {
			panic(err)
		}
	}
	return func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}
}

// serve starts the issuer, which lists both algorithms.
func serve() {
	listener, err := net.Listen("tcp", address)
	check(err)
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": issuer, "jwks_uri": issuer + "/.well-known/jwks.json", "authorization_endpoint": issuer + "/authorize",
			"token_endpoint": issuer + "/token", "id_token_signing_alg_values_supported": []string{"ES256", "RS256"},
		})
	})
	mux.HandleFunc("/.well-known/jwks.json", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(keys) })
	go func() { _ = http.Serve(listener, mux) }()
}

// token signs a token, and publishes the key.
func token(algorithm jose.SignatureAlgorithm, private, public any) string {
	key := jose.JSONWebKey{Key: private, KeyID: string(algorithm), Algorithm: string(algorithm), Use: "sig"}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, nil)
	check(err)
	now := time.Now()
	text, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": issuer, "aud": "api", "sub": "client", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}).Serialize()
	check(err)
	key.Key = public
	keys.Keys = append(keys.Keys, key)
	return text
}

func report(when, es256, rs256 string) {
	fmt.Printf("%s: ES256 %d, RS256 %d\n", when, call(es256), call(rs256))
}

func call(token string) int {
	request, err := http.NewRequest(http.MethodGet, "http://"+proxy+"/", nil)
	check(err)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	check(err)
	response.Body.Close()
	return response.StatusCode
}

// free returns an unused address.
func free() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer listener.Close()
	return listener.Addr().String()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
EOS

go mod tidy >/dev/null 2>&1
go list -m github.com/oauth2-proxy/oauth2-proxy/v7
go build -o . github.com/oauth2-proxy/oauth2-proxy/v7
seen=$(go run .)
printf '%s\n' "$seen"

expected='issuer down at start, then up: ES256 401, RS256 200
after a restart: ES256 200, RS256 200'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
