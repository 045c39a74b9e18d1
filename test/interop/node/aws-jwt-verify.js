// aws-jwt-verify: reads tokens from standard input, one per line, and verifies them. It knows only the
// issuer and the audience, so it gets the keys from /.well-known/jwks.json below the issuer. Prints the
// payload of each token, or the name of the error.
import { createInterface } from 'node:readline'
import { JwtVerifier } from 'aws-jwt-verify'

const { ISSUER, AUDIENCE } = process.env
const verifier = JwtVerifier.create({ issuer: ISSUER, audience: AUDIENCE })

for await (const token of createInterface({ input: process.stdin })) {
  try {
    console.log(JSON.stringify({ payload: await verifier.verify(token) }))
  } catch (error) {
    console.log(JSON.stringify({ error: error.constructor.name }))
  }
}
