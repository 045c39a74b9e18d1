// jose: verifies the tokens that come in, one a line, with the keys at JWKS_URL. Each is
// answered with its payload, or with the code of the error.
//
// The times that jose keeps keys for are its defaults, divided by SPEED_UP as all others of
// the test are.
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
