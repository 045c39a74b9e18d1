// Imports PRIVATE_KEY, the JSON Web Key that the client KEY_CLIENT_ID signs assertions with.
export async function privateKey() {
  const jwk = JSON.parse(process.env.PRIVATE_KEY)
  const key = await crypto.subtle.importKey('jwk', jwk, { name: 'ECDSA', namedCurve: jwk.crv }, false, ['sign'])
  return { key, kid: jwk.kid }
}
