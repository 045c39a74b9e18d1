#!/usr/bin/env bash
# Finding: isURL in validation rules and admission policies of Kubernetes is true for a host with a
# port, such as api.example.com:443, and for text without a host.
#
# Software:  k8s.io/apiserver v0.37.2, the CEL library of validation rules and admission policies.
# Guess:     isURL is false for a host with a port, and for text without a host, so a rule with isURL
#            makes sure that an issuer or endpoint is a URL.
# Behavior:  isURL is url.ParseRequestURI of Go, for which the text before the first colon is a
#            scheme. getScheme then returns the host, and getHost "". A path, and https:/host with one
#            slash, are URLs without a host, too.
# Seen:      see "expected" below.
#
# What follows for a rule: also compare url(self).getScheme() with 'https', and url(self).getHost()
# with ''.
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >go.mod <<'EOF'
module finding

go 1.26.0

require (
	github.com/google/cel-go v0.29.2
	k8s.io/apiserver v0.37.2
)
EOF

cat >main.go <<'EOF'
package main

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

func main() {
	environment, err := cel.NewEnv(library.URLs(), cel.Variable("self", cel.StringType))
	if err != nil {
		panic(err)
	}
	evaluate := func(expression, self string) any {
		ast, issues := environment.Compile(expression)
		if issues.Err() != nil {
			return issues.Err()
		}
		program, err := environment.Program(ast)
		if err != nil {
			return err
		}
		value, _, err := program.Eval(map[string]any{"self": self})
		if err != nil {
			return err
		}
		return value.Value()
	}
	for _, text := range []string{
		"https://api.example.com/acme", "api.example.com", "api.example.com:443", "localhost:8443/acme", "/acme", "https:", "https:/api.example.com", "https://", "orders",
	} {
		fmt.Printf("%-30q isURL: %-5v scheme: %-18q host: %q\n", text, evaluate("isURL(self)", text),
			evaluate("isURL(self) ? url(self).getScheme() : ''", text), evaluate("isURL(self) ? url(self).getHost() : ''", text))
	}
}
EOF

go mod tidy >/dev/null 2>&1
go list -m k8s.io/apiserver
seen=$(go run .)
printf '%s\n' "$seen"

expected='"https://api.example.com/acme" isURL: true  scheme: "https"            host: "api.example.com"
"api.example.com"              isURL: false scheme: ""                 host: ""
"api.example.com:443"          isURL: true  scheme: "api.example.com"  host: ""
"localhost:8443/acme"          isURL: true  scheme: "localhost"        host: ""
"/acme"                        isURL: true  scheme: ""                 host: ""
"https:"                       isURL: true  scheme: "https"            host: ""
"https:/api.example.com"       isURL: true  scheme: "https"            host: ""
"https://"                     isURL: true  scheme: "https"            host: ""
"orders"                       isURL: false scheme: ""                 host: ""'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
