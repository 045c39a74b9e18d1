// oauth4webapi: requests tokens that are bound to a key (DPoP, RFC 9449) with each way to
// authenticate, validates them with their proofs, and calls an API behind nginx with them.
import assert from 'node:assert/strict'
import * as oauth from 'oauth4webapi'

import { privateKey } from './key.js'

const { ISSUER, BOUND_CLIENT_ID, BOUND_CLIENT_SECRET, KEY_CLIENT_ID, AUDIENCE, SCOPE, API_URL, CLUSTER_TOKEN_URL } = process.env
const issuer = new URL(ISSUER)
const server = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { algorithm: 'oauth2' }))

const credentials = {
  client_secret_basic: [BOUND_CLIENT_ID, oauth.ClientSecretBasic(BOUND_CLIENT_SECRET)],
  private_key_jwt: [KEY_CLIENT_ID, oauth.PrivateKeyJwt(await privateKey())],
}

for (const [method, [id, authentication]] of Object.entries(credentials)) {
  const client = { client_id: id }
  const DPoP = oauth.DPoP(client, await oauth.generateKeyPair('ES256'))
  const response = await oauth.clientCredentialsGrantRequest(server, client, authentication, { scope: SCOPE, resource: AUDIENCE }, { DPoP })
  const { access_token, token_type } = await oauth.processClientCredentialsResponse(server, client, response)
  assert.equal(token_type, 'dpop')

  // A Pod sends its request to the URL inside the cluster.
  const inside = oauth.DPoP(client, await oauth.generateKeyPair('ES256'), {
    [oauth.modifyAssertion]: (_, payload) => { payload.htu = CLUSTER_TOKEN_URL },
  })
  assert.equal((await oauth.clientCredentialsGrantRequest(server, client, authentication, {}, { DPoP: inside })).status, 200)

  // The API validates the token and the proof itself.
  let call
  await oauth.protectedResourceRequest(access_token, 'GET', new URL(AUDIENCE), undefined, undefined, {
    DPoP,
    [oauth.customFetch]: async (url, options) => {
      call = new Request(url, options)
      return new Response()
    },
  })
  const claims = await oauth.validateJwtAccessToken(server, call, AUDIENCE, { requireDPoP: true })
  assert.deepEqual(claims.cnf, { jkt: await DPoP.calculateThumbprint() })

  // nginx asks the token service to validate them.
  const request = (options) => oauth.protectedResourceRequest(access_token, 'GET', new URL(API_URL), undefined, undefined, options)
  assert.equal((await request({ DPoP })).status, 200)
  await assert.rejects(request({}), { status: 401 })
  await assert.rejects(request({ DPoP: oauth.DPoP(client, await oauth.generateKeyPair('ES256')) }), { status: 401 })
  console.log(method)
}
