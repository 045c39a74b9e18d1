// oauth4webapi: discovers the server with both discovery methods, requests a token with each client
// authentication method, and validates it according to RFC 9068 and by introspection.
import assert from 'node:assert/strict'
import * as oauth from 'oauth4webapi'

import { privateKey } from './key.js'

const { ISSUER, CLIENT_ID, CLIENT_SECRET, KEY_CLIENT_ID, AUDIENCE, SCOPE } = process.env
const issuer = new URL(ISSUER)

const credentials = {
  client_secret_basic: [CLIENT_ID, oauth.ClientSecretBasic(CLIENT_SECRET)],
  client_secret_post: [CLIENT_ID, oauth.ClientSecretPost(CLIENT_SECRET)],
  private_key_jwt: [KEY_CLIENT_ID, oauth.PrivateKeyJwt(await privateKey())],
}

for (const algorithm of ['oauth2', 'oidc']) {
  const server = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { algorithm }))
  for (const [method, [id, authentication]] of Object.entries(credentials)) {
    const client = { client_id: id }
    const response = await oauth.clientCredentialsGrantRequest(server, client, authentication, { scope: SCOPE, resource: AUDIENCE })
    const { access_token } = await oauth.processClientCredentialsResponse(server, client, response)
    const call = new Request(AUDIENCE, { headers: { authorization: `Bearer ${access_token}` } })
    const claims = await oauth.validateJwtAccessToken(server, call, AUDIENCE)
    assert.equal(claims.sub, id)
    assert.equal(claims.client_id, id)
    assert.equal(claims.scope, SCOPE)
    const introspected = await oauth.introspectionRequest(server, client, authentication, access_token)
    const { active, token_type, ...rest } = await oauth.processIntrospectionResponse(server, client, introspected)
    assert.equal(active, true)
    assert.equal(token_type, 'bearer')
    assert.deepEqual(rest, claims)
    console.log(`${algorithm} ${method}`)
  }
}
