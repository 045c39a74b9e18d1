// jose: reads tokens from standard input, one per line, and verifies them and their entries in a status
// list. Prints the payload of each token, or the error.
//
// docs/verify.md shows everything between this comment and the next import.
import { inflateSync } from 'node:zlib'
import { createRemoteJWKSet, jwtVerify } from 'jose'

const { ISSUER, AUDIENCE } = process.env
const keys = createRemoteJWKSet(new URL(ISSUER + '/oauth2/jwks'), { cacheMaxAge: 300_000 })
const prefix = ISSUER + '/oauth2/status/'
const listKeys = createRemoteJWKSet(new URL(prefix + 'jwks'), { cacheMaxAge: 300_000 }) // They sign no tokens.
const lists = new Map() // by URI

// verify returns the claims of an access token, or throws an error.
export async function verify(token) {
  const { payload } = await jwtVerify(token, keys, {
    issuer: ISSUER, audience: AUDIENCE, typ: 'at+jwt', requiredClaims: ['sub', 'client_id', 'iat', 'exp'],
  })
  if (payload.cnf) throw new Error('token is bound to a key')
  if (payload.act || payload.sub !== payload.client_id) throw new Error('token is delegated')
  if (payload.status) await checkStatus(payload.status.status_list)
  return payload
}

async function checkStatus({ uri, idx }) {
  if (!uri.startsWith(prefix) || !/^\d+$/.test(uri.slice(prefix.length))) throw new Error('status list of another issuer')
  const entry = lists.get(uri) ?? { next: 0 }
  lists.set(uri, entry)
  // Tokens that arrive at the same time share one request, and wait for it.
  if (Date.now() >= entry.next) entry.loading ??= load(uri, entry).finally(() => { entry.loading = undefined })
  await entry.loading
  // If the list can't be loaded, the last one remains until it expires.
  if (!(Date.now() < entry.exp * 1000)) throw new Error('status list is unavailable')
  // Each token has one bit. The first one is the least significant bit of the first byte.
  const byte = Number.isInteger(idx) ? entry.bits[Math.floor(idx / 8)] : undefined
  if (byte === undefined) throw new Error('status list has no entry for the token')
  if ((byte >> idx % 8) & 1) throw new Error('token is revoked')
}

async function load(uri, entry) {
  entry.next = Date.now() + 5000 // if this fails
  try {
    const response = await fetch(uri, {
      headers: { accept: 'application/statuslist+jwt' }, redirect: 'error', signal: AbortSignal.timeout(2000),
    })
    if (!response.ok) throw new Error(`status ${response.status}`)
    const jwt = await response.text()
    const { payload } = await jwtVerify(jwt, listKeys, {
      issuer: ISSUER, subject: uri, typ: 'statuslist+jwt', requiredClaims: ['iat', 'exp', 'ttl', 'status_list'],
    })
    if (payload.iat < entry.iat) throw new Error('older than the last one')
    if (payload.status_list.bits !== 1) throw new Error('not one bit for each token')
    const bits = inflateSync(Buffer.from(payload.status_list.lst, 'base64url'), { maxOutputLength: 131_072 }) // 2^20 entries
    Object.assign(entry, { bits, iat: payload.iat, exp: payload.exp, next: Date.now() + Math.max(payload.ttl, 5) * 1000 })
  } catch (error) {
    console.error(`Failed to load ${uri}: ${error.message}`)
  }
}

import { createInterface } from 'node:readline'

for await (const token of createInterface({ input: process.stdin })) {
  try {
    console.log(JSON.stringify({ payload: await verify(token) }))
  } catch (error) {
    console.log(JSON.stringify({ error: error.code ?? error.message }))
  }
}
