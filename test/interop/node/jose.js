// jose: reads tokens from standard input, one per line, and verifies them with the keys at
// JWKS_URL. Prints the payload of each token, or the error code.
//
// jose caches keys for its default times divided by SPEED_UP, like all other times in the test.
import { createInterface } from 'node:readline'
import { createRemoteJWKSet, jwtVerify } from 'jose'

const { ISSUER, AUDIENCE, JWKS_URL, SPEED_UP } = process.env
const keys = createRemoteJWKSet(new URL(JWKS_URL), {
  cacheMaxAge: 600_000 / SPEED_UP,
  cooldownDuration: 30_000 / SPEED_UP,
})

for await (const token of createInterface({ input: process.stdin })) {
  try {
    const { payload } = await jwtVerify(token, keys, { issuer: ISSUER, audience: AUDIENCE, typ: 'at+jwt' })
    console.log(JSON.stringify({ payload }))
  } catch (error) {
    console.log(JSON.stringify({ error: error.code }))
  }
}
