// openid-client: requests tokens that are bound to a key (DPoP, RFC 9449) with each way to
// authenticate, and calls an API behind nginx with them. nginx must reject every token that is not
// accompanied by a new proof for the same request and token by the same key.
import assert from 'node:assert/strict'
import * as client from 'openid-client'

import { privateKey } from './key.js'

const { ISSUER, BOUND_CLIENT_ID, BOUND_CLIENT_SECRET, KEY_CLIENT_ID, AUDIENCE, SCOPE, API_URL } = process.env
const api = new URL(API_URL)

const credentials = {
  client_secret_basic: [BOUND_CLIENT_ID, client.ClientSecretBasic(BOUND_CLIENT_SECRET)],
  private_key_jwt: [KEY_CLIENT_ID, client.PrivateKeyJwt(await privateKey())],
}

// rejected checks that the API rejects a call with the given error in a DPoP challenge.
async function rejected(call, error) {
  await assert.rejects(call, (thrown) => {
    assert.equal(thrown.status, 401)
    assert.equal(thrown.cause[0].scheme, 'dpop')
    assert.equal(thrown.cause[0].parameters.error, error)
    assert.ok(thrown.cause[0].parameters.algs.split(' ').includes('ES256'))
    return true
  })
}

for (const [method, [id, authentication]] of Object.entries(credentials)) {
  for (const algorithm of ['ES256', 'Ed25519', 'PS256']) {
    const config = await client.discovery(new URL(ISSUER), id, undefined, authentication, { algorithm: 'oauth2' })
    assert.ok(config.serverMetadata().dpop_signing_alg_values_supported.includes(algorithm))
    const key = await client.randomDPoPKeyPair(algorithm)
    const DPoP = client.getDPoPHandle(config, key)
    const token = await client.clientCredentialsGrant(config, { scope: SCOPE, resource: AUDIENCE }, { DPoP })
    assert.equal(token.token_type, 'dpop')
    const introspected = await client.tokenIntrospection(config, token.access_token)
    assert.equal(introspected.token_type, 'DPoP')
    assert.equal(introspected.cnf.jkt, await DPoP.calculateThumbprint())

    let sent
    config[client.customFetch] = (url, options) => {
      sent = [url, options]
      return fetch(url, options)
    }
    const call = (options, url = api) => client.fetchProtectedResource(config, token.access_token, url, 'GET', undefined, undefined, options)
    const changed = (change) => ({ DPoP: client.getDPoPHandle(config, key, { [client.modifyAssertion]: change }) })
    assert.equal((await call({ DPoP })).status, 200)

    const [url, options] = sent
    const challenge = async (response) => [response.status, /error="(\w+)"/.exec(response.headers.get('www-authenticate'))?.[1]]
    assert.deepEqual(await challenge(await fetch(url, options)), [401, 'invalid_dpop_proof'], 'replayed')
    assert.equal((await call({ DPoP })).status, 200)
    const fresh = async (change, url = API_URL) => {
      let unsent
      config[client.customFetch] = async (url, options) => {
        unsent = [url, options]
        return new Response()
      }
      await call({ DPoP })
      return challenge(await fetch(url, change(unsent[1])))
    }
    assert.deepEqual(await fresh((o) => o), [200, undefined])
    assert.deepEqual(await fresh((o) => o, API_URL + '?page=2'), [200, undefined], 'the query does not count')
    assert.deepEqual(await fresh((o) => o, API_URL + '/1'), [401, 'invalid_dpop_proof'], 'another URL')
    assert.deepEqual(await fresh((o) => ({ ...o, method: 'POST' })), [401, 'invalid_dpop_proof'], 'another method')
    const forged = (o) => {
      const headers = new Headers(o.headers)
      headers.set('X-Original-URL', API_URL)
      headers.set('X-Original-Method', 'GET')
      return { ...o, headers }
    }
    assert.deepEqual(await fresh(forged), [200, undefined])
    assert.deepEqual(await fresh(forged, API_URL + '/1'), [401, 'invalid_dpop_proof'], 'headers that only nginx may set')
    config[client.customFetch] = fetch

    await rejected(call({}), 'invalid_token') // the bound token as Bearer
    await rejected(call({ DPoP: client.getDPoPHandle(config, await client.randomDPoPKeyPair(algorithm)) }), 'invalid_token')
    const hour = 3600
    for (const [change, name] of [
      [(_, payload) => { payload.htu = 'https://other.example/' }, 'htu'],
      [(_, payload) => { payload.htm = 'get' }, 'htm'],
      [(_, payload) => { payload.ath = 'x' }, 'ath'],
      [(_, payload) => { payload.iat -= hour }, 'old'],
      [(_, payload) => { payload.iat += hour }, 'future'],
      [(_, payload) => { delete payload.jti }, 'jti'],
      [(header) => { header.typ = 'JWT' }, 'typ'],
    ]) {
      await assert.doesNotReject(rejected(call(changed(change)), 'invalid_dpop_proof'), name)
    }
    console.log(`${method} ${algorithm}`)
  }
}

const config = await client.discovery(new URL(ISSUER), BOUND_CLIENT_ID, undefined, credentials.client_secret_basic[1])
await assert.rejects(client.clientCredentialsGrant(config), { name: 'ResponseBodyError', status: 400, error: 'invalid_dpop_proof' })
console.log('required')
