#!/usr/bin/env bash
# Finding: two libraries of Node.js that load an issuer's keys don't apply their own option for the
# timeout.
#
# Software:  express-oauth2-jwt-bearer 1.10.0 with express 5.3.0, get-jwks 11.0.3, and for
#            comparison jwks-rsa 4.1.0.
# Guess:     While the issuer accepts connections and sends nothing, a verification fails after
#            timeoutDuration (express-oauth2-jwt-bearer) or timeout (get-jwks), which is a second
#            here.
# Behavior:  express-oauth2-jwt-bearer applies timeoutDuration to the key set, but the request for
#            the metadata, which issuerBaseURL needs, has no limit. get-jwks documents timeout and
#            reads it nowhere. Both still wait after five seconds. jwks-rsa fails after a second.
# Seen:      see "expected" below.
#
# What follows for an API: configure the issuer and the URL of its key set instead of issuerBaseURL,
# and load keys in the background, so that no request waits for the issuer.
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts express-oauth2-jwt-bearer@1.10.0 express@5.3.0 get-jwks@11.0.3 jwks-rsa@4.1.0 jose@6.2.17

cat >main.mjs <<'EOS'
import { createServer } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import express from 'express'
import { auth } from 'express-oauth2-jwt-bearer'
import buildGetJwks from 'get-jwks'
import jwksClient from 'jwks-rsa'
import { SignJWT, generateKeyPair } from 'jose'

const listen = async handler => {
  const server = createServer(handler)
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${server.address().port}`
}
const issuer = await listen(() => {}) // It never responds.
const { privateKey } = await generateKeyPair('ES256')
const token = await new SignJWT({}).setProtectedHeader({ alg: 'ES256', kid: 'k' }).setIssuer(issuer).setAudience('api')
  .setIssuedAt().setExpirationTime('5m').sign(privateKey)

async function callAPI(options) {
  const app = express()
  app.use(auth({ audience: 'api', timeoutDuration: 1000, ...options }))
  app.use((error, request, response, next) => response.sendStatus(error.status))
  const response = await fetch(await listen(app), { headers: { Authorization: `Bearer ${token}` } })
  if (!response.ok) throw new Error(response.status)
}

const keys = buildGetJwks({ jwksPath: '/jwks', timeout: 1000 })
for (const [name, verify] of Object.entries({
  'express-oauth2-jwt-bearer with jwksUri': () => callAPI({ issuer, jwksUri: issuer + '/jwks' }),
  'express-oauth2-jwt-bearer with issuerBaseURL': () => callAPI({ issuerBaseURL: issuer }),
  'get-jwks': () => keys.getJwk({ domain: issuer, alg: 'ES256', kid: 'k' }),
  'jwks-rsa': () => jwksClient({ jwksUri: issuer + '/jwks', timeout: 1000 }).getSigningKey('k'),
})) {
  const started = Date.now()
  const failed = verify().catch(() => `fails after ${Math.round((Date.now() - started) / 1000)} s`)
  console.log(`${name}: ${await Promise.race([failed, setTimeout(5000, 'still waits after 5 s')])}`)
}
process.exit()
EOS

npm ls --depth=0 | grep -- '── '
seen=$(node main.mjs)
printf '%s\n' "$seen"

expected='express-oauth2-jwt-bearer with jwksUri: fails after 1 s
express-oauth2-jwt-bearer with issuerBaseURL: still waits after 5 s
get-jwks: still waits after 5 s
jwks-rsa: fails after 1 s'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
