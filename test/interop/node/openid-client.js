// openid-client: discovers the server with both discovery methods, requests a token with each
// client authentication method, and introspects it. Only a client that may introspect the audience
// learns about the token of another client. Then requests a token from a URL that contains grant_type.
import assert from 'node:assert/strict'
import * as client from 'openid-client'

import { privateKey } from './key.js'

const { ISSUER, CLIENT_ID, CLIENT_SECRET, KEY_CLIENT_ID, GATEWAY_CLIENT_ID, GATEWAY_CLIENT_SECRET, AUDIENCE, SCOPE } = process.env

const credentials = {
  client_secret_basic: [CLIENT_ID, client.ClientSecretBasic(CLIENT_SECRET)],
  client_secret_post: [CLIENT_ID, client.ClientSecretPost(CLIENT_SECRET)],
  private_key_jwt: [KEY_CLIENT_ID, client.PrivateKeyJwt(await privateKey())],
}

for (const algorithm of ['oauth2', 'oidc']) {
  for (const [method, [id, authentication]] of Object.entries(credentials)) {
    const config = await client.discovery(new URL(ISSUER), id, undefined, authentication, { algorithm })
    const server = config.serverMetadata()
    assert.ok(server.token_endpoint_auth_methods_supported.includes(method), `${method} is not in the metadata`)
    const response = await client.clientCredentialsGrant(config, { scope: SCOPE, resource: AUDIENCE })
    assert.equal(response.token_type, 'bearer')
    assert.equal(response.scope, SCOPE)
    assert.ok(response.expiresIn() > 0)
    const token = await client.tokenIntrospection(config, response.access_token)
    assert.equal(token.active, true)
    assert.equal(token.client_id, id)
    assert.equal(token.scope, SCOPE)
    console.log(`${algorithm} ${method}`)
  }
}

const config = await client.discovery(new URL(ISSUER), CLIENT_ID, undefined, client.ClientSecretBasic(CLIENT_SECRET))
assert.deepEqual(await client.tokenIntrospection(config, 'x'), { active: false })

const { access_token } = await client.clientCredentialsGrant(config, { resource: AUDIENCE })
const gateway = await client.discovery(new URL(ISSUER), GATEWAY_CLIENT_ID, undefined, client.ClientSecretBasic(GATEWAY_CLIENT_SECRET))
assert.equal((await client.tokenIntrospection(gateway, access_token)).client_id, CLIENT_ID)
const other = await client.discovery(new URL(ISSUER), KEY_CLIENT_ID, undefined, credentials.private_key_jwt[1])
assert.deepEqual(await client.tokenIntrospection(other, access_token), { active: false })
console.log('introspected by the gateway only')

const { token_endpoint } = config.serverMetadata()
const withQuery = new client.Configuration(
  { issuer: ISSUER, token_endpoint: token_endpoint + '?grant_type=client_credentials' },
  CLIENT_ID, undefined, client.ClientSecretBasic(CLIENT_SECRET),
)
assert.equal((await client.clientCredentialsGrant(withQuery, { scope: SCOPE })).scope, SCOPE)
console.log('token URL with a query')

const wrong = await client.discovery(new URL(ISSUER), CLIENT_ID, undefined, client.ClientSecretBasic('wrong'))
await assert.rejects(client.clientCredentialsGrant(wrong), { name: 'WWWAuthenticateChallengeError', status: 401 })
console.log('rejected')
