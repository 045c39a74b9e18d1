#!/usr/bin/env bash
# Finding: the Model Context Protocol SDK for TypeScript doesn't see resource_metadata if the response
# begins with another challenge than Bearer.
#
# Software:  @modelcontextprotocol/sdk 1.32.2, function extractWWWAuthenticateParams.
# Guess:     A response can have several challenges, in one header or in several (RFC 9110 §11.6.1).
#            The SDK looks for the parameter resource_metadata (RFC 9728 §5.1) in all of them.
# Behavior:  The SDK reads only the first scheme of the header. With DPoP first, in one header or in
#            two, which fetch joins, it finds neither resource_metadata nor scope. Spaces around "=",
#            which a recipient must accept (RFC 9110 §5.6.3, §11.2), have the same effect.
# Seen:      see "expected" below.
#
# What follows for an API: send the challenge Bearer first, and each parameter without spaces.
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts @modelcontextprotocol/sdk@1.32.2

cat >main.mjs <<'EOF'
import { extractWWWAuthenticateParams } from '@modelcontextprotocol/sdk/client/auth.js'

const url = 'https://api.example.com/.well-known/oauth-protected-resource'
for (const [name, headers] of [
  ['Bearer', [`Bearer resource_metadata="${url}", scope="orders.read"`]],
  ['lower case', [`bearer resource_metadata="${url}", scope="orders.read"`]],
  ['spaces around =', [`Bearer resource_metadata = "${url}", scope = "orders.read"`]],
  ['error first', [`Bearer error="invalid_token", resource_metadata="${url}", scope="orders.read"`]],
  ['Bearer, DPoP in one header', [`Bearer resource_metadata="${url}", scope="orders.read", DPoP algs="ES256"`]],
  ['DPoP, Bearer in one header', [`DPoP algs="ES256", Bearer resource_metadata="${url}", scope="orders.read"`]],
  ['Bearer, DPoP in two headers', [`Bearer resource_metadata="${url}", scope="orders.read"`, 'DPoP algs="ES256"']],
  ['DPoP, Bearer in two headers', ['DPoP algs="ES256"', `Bearer resource_metadata="${url}", scope="orders.read"`]],
  ['DPoP only', [`DPoP algs="ES256", resource_metadata="${url}", scope="orders.read"`]],
]) {
  const response = new Response(null, { status: 401 })
  for (const value of headers) response.headers.append('WWW-Authenticate', value)
  const found = extractWWWAuthenticateParams(response)
  console.log(`${name}: metadata ${found.resourceMetadataUrl ? 'found' : 'not found'}, scope ${found.scope ?? 'not found'}`)
}
EOF

npm ls --depth=0 | grep @modelcontextprotocol
seen=$(node main.mjs)
printf '%s\n' "$seen"

expected='Bearer: metadata found, scope orders.read
lower case: metadata found, scope orders.read
spaces around =: metadata not found, scope not found
error first: metadata found, scope orders.read
Bearer, DPoP in one header: metadata found, scope orders.read
DPoP, Bearer in one header: metadata not found, scope not found
Bearer, DPoP in two headers: metadata found, scope orders.read
DPoP, Bearer in two headers: metadata not found, scope not found
DPoP only: metadata not found, scope not found'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
