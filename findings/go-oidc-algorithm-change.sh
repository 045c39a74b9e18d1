#!/usr/bin/env bash
# Finding: a program with go-oidc rejects all tokens of an issuer that changes its signing algorithm
# until the program is restarted, although it loads the new keys.
#
# Software:  github.com/coreos/go-oidc/v3 v3.21.0, with github.com/go-jose/go-jose/v4 for the issuer.
# Guess:     A key set that is loaded again for an unknown key ID also brings the algorithm of the new
#            key, so a token signed by it is accepted.
# Behavior:  oidc.NewProvider reads id_token_signing_alg_values_supported once, and Provider.Verifier
#            accepts only these algorithms from then on. The check comes before the key set is asked, so
#            the new key isn't loaded either. A provider that is created later accepts the same token. If
#            the issuer lists both algorithms from the start, the first provider accepts it, too.
# Source:    OpenID Connect Discovery 1.0 §4 doesn't say how long metadata may be remembered.
# Seen:      metadata lists ES256, then also EdDSA:
#              before the change:      accepted
#              after the change:       oidc: malformed jwt: unexpected signature algorithm "EdDSA"; expected ["ES256"]
#              key set loaded again:   false
#              provider created later: accepted
#            metadata lists both from the start:
#              after the change:       accepted
#
# What follows for an issuer: list every algorithm that it may sign with in the future.
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
	github.com/coreos/go-oidc/v3 v3.21.0
	github.com/go-jose/go-jose/v4 v4.1.3
)
EOF

cat >main.go <<'EOF'
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

type issuer struct {
	url        string
	algorithms []string
	keys       jose.JSONWebKeySet
	loads      int
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		json.NewEncoder(w).Encode(map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys", "id_token_signing_alg_values_supported": i.algorithms})
	case "/keys":
		i.loads++
		json.NewEncoder(w).Encode(i.keys)
	}
}

func (i *issuer) sign(algorithm jose.SignatureAlgorithm, id string, key any) string {
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil))
	claims := must(json.Marshal(map[string]any{"iss": i.url, "aud": "api", "sub": "client", "exp": time.Now().Add(time.Hour).Unix()}))
	return must(must(signer.Sign(claims)).CompactSerialize())
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func outcome(provider *oidc.Provider, token string) string {
	_, err := provider.Verifier(&oidc.Config{ClientID: "api"}).Verify(context.Background(), token)
	if err != nil {
		return err.Error()
	}
	return "accepted"
}

func run(algorithms ...string) {
	i := &issuer{algorithms: algorithms}
	server := httptest.NewServer(i)
	defer server.Close()
	i.url = server.URL
	old := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(0, err)
	i.keys.Keys = []jose.JSONWebKey{{Key: old.Public(), KeyID: "old", Algorithm: "ES256", Use: "sig"}}

	first := must(oidc.NewProvider(context.Background(), i.url))
	fmt.Println("before the change:", outcome(first, i.sign(jose.ES256, "old", old)))

	i.algorithms = []string{"ES256", "EdDSA"}
	i.keys.Keys = append(i.keys.Keys, jose.JSONWebKey{Key: public, KeyID: "new", Algorithm: "EdDSA", Use: "sig"})
	token, loads := i.sign(jose.EdDSA, "new", private), i.loads
	fmt.Println("after the change:", outcome(first, token))
	fmt.Println("key set loaded again:", i.loads > loads)
	fmt.Println("provider created later:", outcome(must(oidc.NewProvider(context.Background(), i.url)), token))
}

func main() {
	fmt.Println("metadata lists ES256, then also EdDSA:")
	run("ES256")
	fmt.Println("metadata lists both from the start:")
	run("ES256", "EdDSA")
}
EOF

go mod tidy >/dev/null 2>&1
go list -m github.com/coreos/go-oidc/v3
seen=$(go run .)
printf '%s\n' "$seen"

expected='metadata lists ES256, then also EdDSA:
before the change: accepted
after the change: oidc: malformed jwt: unexpected signature algorithm "EdDSA"; expected ["ES256"]
key set loaded again: false
provider created later: accepted
metadata lists both from the start:
before the change: accepted
after the change: accepted
key set loaded again: true
provider created later: accepted'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
