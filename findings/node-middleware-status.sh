#!/usr/bin/env bash
# Finding: of four middlewares of Node.js that verify tokens, none responds with 401 to all invalid
# tokens and with 5xx to all outages of the issuer.
#
# Software:  express-oauth2-jwt-bearer 1.10.0 and passport-jwt 4.0.1 (passport 0.7.0, jwks-rsa
#            4.1.0) with express 5.3.0, @fastify/jwt 10.2.8 (get-jwks 11.0.3) with fastify 5.12.8,
#            hono 4.13.19.
# Guess:     A token with an unknown key ID, or with another typ than the required one, is a 401
#            with a challenge (RFC 6750 §3). If the key set can't be loaded, the API can't know
#            whether the token is valid, so the response is 5xx.
# Behavior:  express-oauth2-jwt-bearer and passport-jwt respond with 401 in an outage, too, and
#            passport-jwt always without a challenge. @fastify/jwt responds with 500 to the invalid
#            tokens, as in an outage. hono responds with 500 if the issuer responds with 503, but
#            with 401 invalid_token if it refuses connections.
# Seen:      see "expected" below. passport-jwt can't check typ.
#
# What follows for an API: map the errors of the middleware. Otherwise, an outage of the issuer
# makes clients throw valid tokens away and ask the issuer for new ones, or anyone can cause alerts
# with invalid tokens.
#
# It exits with 0 if the behavior is the same, and with another code otherwise.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts express@5.3.0 express-oauth2-jwt-bearer@1.10.0 passport@0.7.0 \
	passport-jwt@4.0.1 jwks-rsa@4.1.0 fastify@5.12.8 @fastify/jwt@10.2.8 get-jwks@11.0.3 hono@4.13.19 jose@6.2.17

cat >main.mjs <<'EOS'
import { createServer } from 'node:http'
import express from 'express'
import { auth } from 'express-oauth2-jwt-bearer'
import fastifyJWT from '@fastify/jwt'
import Fastify from 'fastify'
import buildGetJwks from 'get-jwks'
import { Hono } from 'hono'
import { jwk } from 'hono/jwk'
import { SignJWT, exportJWK, generateKeyPair } from 'jose'
import jwksRSA from 'jwks-rsa'
import passport from 'passport'
import { ExtractJwt, Strategy } from 'passport-jwt'

const listen = async handler => {
  const server = createServer(handler)
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  return [`http://127.0.0.1:${server.address().port}`, server]
}
const { privateKey, publicKey } = await generateKeyPair('ES256')
const key = { ...await exportJWK(publicKey), kid: 'known', alg: 'ES256', use: 'sig' }
let status = 200
const [issuer, server] = await listen((request, response) => {
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(status === 200 ? { keys: [key] } : {}))
})
const sign = (kid, typ) => new SignJWT({ sub: 'a', client_id: 'a', jti: 'j' }).setProtectedHeader({ alg: 'ES256', kid, typ })
  .setIssuer(issuer).setAudience('api').setIssuedAt().setExpirationTime('5m').sign(privateKey)

// Each function returns a function that calls a new API, which remembers no keys.
const jwksUri = issuer + '/jwks'
async function callExpress(middleware) {
  const app = express()
  app.use(middleware)
  app.get('/', (request, response) => response.sendStatus(200))
  app.use((error, request, response, next) => response.status(error.status ?? 500).set(error.headers ?? {}).end())
  const [url, api] = await listen(app)
  return headers => fetch(url, { headers }).finally(() => api.close())
}
const middlewares = {
  'express-oauth2-jwt-bearer': () => callExpress(auth({ issuer, jwksUri, audience: 'api', strict: true, dpop: { enabled: false } })),
  'passport-jwt': () => {
    const strategy = new Strategy({
      jwtFromRequest: ExtractJwt.fromAuthHeaderAsBearerToken(), secretOrKeyProvider: jwksRSA.passportJwtSecret({ jwksUri }),
      issuer, audience: 'api', algorithms: ['ES256'],
    }, (claims, done) => done(null, claims))
    return callExpress(passport.authenticate(strategy, { session: false }))
  },
  '@fastify/jwt': async () => {
    const app = Fastify()
    const keys = buildGetJwks({ jwksPath: '/jwks' })
    await app.register(fastifyJWT, {
      decode: { complete: true }, secret: (request, { header: { alg, kid } }) => keys.getPublicKey({ domain: issuer, alg, kid }),
      verify: { checkTyp: 'at+jwt', allowedIss: issuer, allowedAud: 'api' },
    })
    app.addHook('onRequest', request => request.jwtVerify())
    app.get('/', async () => 'ok')
    return async headers => {
      const response = await app.inject({ url: '/', headers })
      return { status: response.statusCode, headers: new Headers(response.headers) }
    }
  },
  hono: () => {
    const app = new Hono()
    app.onError((error, c) => error.getResponse?.() ?? c.text('', 500)) // as by default, without a log
    app.use(jwk({ jwks_uri: jwksUri, alg: ['ES256'], verification: { typ: 'at+jwt', iss: issuer, aud: 'api' } }))
    app.get('/', c => c.text('ok'))
    return headers => app.request('/', { headers })
  },
}
async function report(what, token, except) {
  for (const [name, start] of Object.entries(middlewares)) {
    if (name === except) continue
    const response = await (await start())({ Authorization: `Bearer ${token}` })
    const challenge = response.headers.get('WWW-Authenticate')
    console.log(`${what}, ${name}: ${response.status}${challenge ? ' ' + /error="(.*?)"/.exec(challenge)?.[1] : ''}`)
  }
}
const valid = await sign('known', 'at+jwt')
await report('valid', valid)
await report('unknown key ID', await sign('unknown', 'at+jwt'))
await report('other typ', await sign('known', 'JWT'), 'passport-jwt')
status = 503
await report('issuer responds with 503', valid)
server.closeAllConnections()
await new Promise(resolve => server.close(resolve))
await report('issuer refuses connections', valid)
process.exit()
EOS

npm ls --depth=0 | grep -- '── '
seen=$(node main.mjs)
printf '%s\n' "$seen"

expected='valid, express-oauth2-jwt-bearer: 200
valid, passport-jwt: 200
valid, @fastify/jwt: 200
valid, hono: 200
unknown key ID, express-oauth2-jwt-bearer: 401 invalid_token
unknown key ID, passport-jwt: 401
unknown key ID, @fastify/jwt: 500
unknown key ID, hono: 401 invalid_token
other typ, express-oauth2-jwt-bearer: 401 invalid_token
other typ, @fastify/jwt: 500
other typ, hono: 401 invalid_token
issuer responds with 503, express-oauth2-jwt-bearer: 401 invalid_token
issuer responds with 503, passport-jwt: 401
issuer responds with 503, @fastify/jwt: 500
issuer responds with 503, hono: 500
issuer refuses connections, express-oauth2-jwt-bearer: 401 invalid_token
issuer refuses connections, passport-jwt: 401
issuer refuses connections, @fastify/jwt: 500
issuer refuses connections, hono: 401 invalid_token'
if [[ $seen != "$expected" ]]; then
	printf 'The behavior has changed. Expected:\n%s\n' "$expected" >&2
	exit 1
fi
echo "The behavior is the same."
