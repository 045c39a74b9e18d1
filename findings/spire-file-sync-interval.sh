#!/usr/bin/env bash
# Finding: a SPIRE server with a bundle endpoint and its own certificate doesn't start without an optional
# setting, and the error names neither the setting nor its section.
#
# Software:  github.com/spiffe/spire v1.13.3, spire-server built from source.
# Guess:     file_sync_interval in serving_cert_file is optional, because the server's documentation gives
#            1h as its default.
# Behavior:  without it, the configuration is invalid, and the server exits with an error about an empty
#            duration. "0s" is valid, and the source replaces it by 1 hour. refresh_hint, the other
#            duration of the bundle endpoint, can be left out.
# Source:    doc/spire_server.md, "Configuration options for serving_cert_file"; conf/server/server_full.conf
#            has the setting as a comment with its default.
# Seen:      without file_sync_interval: time: invalid duration ""
#            with 1h:                    valid
#            with 0s:                    valid
# Date:      2026-11-30.
#
# Who is concerned: everybody whose verifiers get the keys of JWT-SVIDs from the bundle endpoint with the
# profile https_web and a certificate in files, such as one of cert-manager.
#
# It needs a C compiler, builds for 10 minutes the first time, and starts no server. It exits with 0 if
# the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >go.mod <<'EOF'
module finding

go 1.25.3
EOF
go get -tool github.com/spiffe/spire/cmd/spire-server@v1.13.3 2>/dev/null
CGO_ENABLED=1 go build -o spire-server github.com/spiffe/spire/cmd/spire-server

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost \
	-keyout tls.key -out tls.crt 2>/dev/null

# validate checks the configuration with a line in serving_cert_file.
validate() {
	cat >server.conf <<EOF
server {
  bind_address = "127.0.0.1"
  bind_port = "8081"
  trust_domain = "example.org"
  data_dir = "./data"
  federation {
    bundle_endpoint {
      address = "127.0.0.1"
      port = 8443
      profile "https_web" {
        serving_cert_file {
          cert_file_path = "./tls.crt"
          key_file_path = "./tls.key"
          $1
        }
      }
    }
  }
}
plugins {
  DataStore "sql" { plugin_data { database_type = "sqlite3", connection_string = "./datastore.sqlite3" } }
  KeyManager "memory" { plugin_data {} }
  NodeAttestor "join_token" { plugin_data {} }
}
EOF
	local out
	if out=$(./spire-server validate -config server.conf 2>&1); then echo valid; else echo "${out##*invalid: }"; fi
}

seen="without file_sync_interval: $(validate '')
with 1h: $(validate 'file_sync_interval = "1h"')
with 0s: $(validate 'file_sync_interval = "0s"')"
printf '%s\n' "$seen"

expected='without file_sync_interval: time: invalid duration ""
with 1h: valid
with 0s: valid'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
