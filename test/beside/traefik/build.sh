#!/usr/bin/env bash
# Builds Traefik as DIRECTORY/traefik from what the module proxy has: not the libraries of all 200 DNS services with
# which Traefik could prove to a CA that it has a domain, and not its fork of go-http-auth.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
modules=$(cd ../../.. && pwd)/.test/traefik
mkdir -p "$modules"

# link makes a module available as $modules/NAME, because the overlay of go build can't change the module cache.
link() {
	ln -sfn "$(cd / && go mod download -json "$2" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')" "$modules/$1"
}
link lego "$(awk '$1 ~ "/lego/v5$" && $2 ~ /^v/ { print $1 "@" $2 }' go.mod)"
link go-http-auth github.com/abbot/go-http-auth@v0.4.1-0.20220112235402-e1cee1c72f2f
overlay=$(mktemp)
trap 'rm -f "$overlay"' EXIT
cat >"$overlay" <<EOS
{"Replace": {
  "$modules/lego/providers/dns/zz_gen_dns_providers.go": "$PWD/lego/providers.go",
  "$modules/go-http-auth/stale.go": "$PWD/go-http-auth/stale.go"
}}
EOS
go build -overlay="$overlay" -o "$1/" github.com/traefik/traefik/v3/cmd/traefik
