// jose: reads tokens from standard input, one per line, and verifies them with the keys at
// JWKS_URL. Prints the payload of each token, or the error code. With LENIENT, it checks neither typ nor audience.
//
// jose caches keys for its default times divided by SPEED_UP, like all other times in the test.
import { createInterface } from 'node:readline'
import { createRemoteJWKSet, jwtVerify } from 'jose'

const { ISSUER, AUDIENCE, JWKS_URL, LENIENT, SPEED_UP } = process.env
const keys = createRemoteJWKSet(new URL(JWKS_URL), {
  cacheMaxAge: 600_000 / SPEED_UP,
  cooldownDuration: 30_000 / SPEED_UP,
})

const checks = LENIENT ? { issuer: ISSUER } : { issuer: ISSUER, audience: AUDIENCE, typ: 'at+jwt' }

for await (const token of createInterface({ input: process.stdin })) {
  try {
    const { payload } = await jwtVerify(token, keys, checks)
    console.log(JSON.stringify({ payload }))
  } catch (error) {
    console.log(JSON.stringify({ error: error.code }))
  }
}
