// oauth4webapi and openid-client: actors exchange tokens (RFC 8693) with each way to authenticate,
// in a chain, and with tokens that are bound to a key. A workload gets tokens with a JWT-SVID.
import assert from 'node:assert/strict'
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'

import { privateKey } from './key.js'

const {
  ISSUER, SUBJECT_CLIENT_ID, SUBJECT_CLIENT_SECRET, AGENT_CLIENT_ID, AGENT_CLIENT_SECRET, KEY_CLIENT_ID,
  POD_CLIENT_ID, POD_TOKEN, FOREIGN_TOKEN, FOREIGN_SUBJECT, SVID_CLIENT_ID, SVID, AGENTS, AUDIENCE, SCOPE,
} = process.env
const GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange'
const TYPE = 'urn:ietf:params:oauth:token-type:'

// assertion returns the client authentication with a token that the client didn't sign itself.
const assertion = (type, token, sendID = true) => (_, client, body) => {
  if (sendID) body.set('client_id', client.client_id)
  body.set('client_assertion_type', 'urn:ietf:params:oauth:client-assertion-type:' + type)
  body.set('client_assertion', token)
}

const libraries = {
  oauth4webapi: async (id, authentication) => {
    const issuer = new URL(ISSUER)
    const server = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { algorithm: 'oauth2' }))
    const client = { client_id: id }
    return {
      metadata: server,
      grant: async (type, parameters, options) => oauth.processGenericTokenEndpointResponse(server, client,
        await oauth.genericTokenEndpointRequest(server, client, authentication, type, parameters, options)),
      claims: (token, audience) => oauth.validateJwtAccessToken(server,
        new Request(audience, { headers: { authorization: `Bearer ${token}` } }), audience),
      DPoP: async () => oauth.DPoP(client, await oauth.generateKeyPair('ES256')),
    }
  },
  'openid-client': async (id, authentication) => {
    const config = await openid.discovery(new URL(ISSUER), id, undefined, authentication)
    return {
      metadata: config.serverMetadata(),
      grant: (type, parameters, options) => openid.genericGrantRequest(config, type, parameters, options),
      claims: async (token) => { // by introspection, which the actor may use for its own tokens
        const { active, token_type, ...claims } = await openid.tokenIntrospection(config, token)
        assert.equal(active, true)
        return claims
      },
      DPoP: async () => openid.getDPoPHandle(config, await openid.randomDPoPKeyPair('ES256')),
    }
  },
}

for (const [name, library] of Object.entries(libraries)) {
  const subject = await library(SUBJECT_CLIENT_ID, oauth.ClientSecretBasic(SUBJECT_CLIENT_SECRET))
  const agent = await library(AGENT_CLIENT_ID, oauth.ClientSecretBasic(AGENT_CLIENT_SECRET))
  const keyed = await library(KEY_CLIENT_ID, oauth.PrivateKeyJwt(await privateKey()))
  const pod = await library(POD_CLIENT_ID, assertion('jwt-bearer', POD_TOKEN))

  const { metadata } = subject
  assert.ok(metadata.grant_types_supported.includes(GRANT))
  assert.deepEqual(metadata.authorization_grant_profiles_supported, ['urn:ietf:params:oauth:grant-profile:id-jag'])
  assert.ok(metadata.token_endpoint_auth_methods_supported.includes('spiffe_jwt'))
  console.log(name, 'metadata')

  const subjectToken = async (options) => (await subject.grant('client_credentials', { resource: AGENTS }, options)).access_token
  const exchange = async (actor, token, resource = AUDIENCE, options = undefined, type = 'access_token') => {
    const response = await actor.grant(GRANT, { subject_token: token, subject_token_type: TYPE + type, resource, scope: SCOPE }, options)
    assert.equal(response.issued_token_type, TYPE + 'access_token')
    assert.equal(response.token_type, options?.DPoP ? 'dpop' : 'bearer')
    return response.access_token
  }
  // chain checks the claims of a token. It returns the client IDs of its actors, latest first.
  const chain = async (actor, token, id, audience = AUDIENCE, sub = SUBJECT_CLIENT_ID) => {
    const claims = await actor.claims(token, audience)
    assert.deepEqual([claims.sub, claims.client_id, claims.aud, claims.scope], [sub, id, audience, SCOPE])
    const actors = []
    for (let { act } = claims; act; act = act.act) {
      assert.equal(act.iss, ISSUER)
      assert.ok(act.client_uid)
      actors.push(act.sub)
    }
    return actors
  }

  const token = await subjectToken()
  for (const [method, actor, id] of [
    ['client_secret_basic', agent, AGENT_CLIENT_ID], ['private_key_jwt', keyed, KEY_CLIENT_ID], ['service account', pod, POD_CLIENT_ID],
  ]) {
    assert.deepEqual(await chain(actor, await exchange(actor, token), id), [id])
    console.log(name, method)
  }

  // The rule allows two actors in a chain.
  const first = await exchange(agent, token, AGENTS)
  const second = await exchange(keyed, first, AGENTS)
  assert.deepEqual(await chain(keyed, second, KEY_CLIENT_ID, AGENTS), [KEY_CLIENT_ID, AGENT_CLIENT_ID])
  assert.deepEqual(await chain(pod, await exchange(pod, first), POD_CLIENT_ID), [POD_CLIENT_ID, AGENT_CLIENT_ID])
  await assert.rejects(exchange(pod, second), { name: 'ResponseBodyError', status: 400, error: 'invalid_request' })
  console.log(name, 'chain')

  // A token that is bound to the subject's key is exchanged for one that is bound to the actor's key.
  const bound = await subjectToken({ DPoP: await subject.DPoP() })
  await assert.rejects(exchange(agent, bound), { name: 'ResponseBodyError', status: 400, error: 'invalid_dpop_proof' })
  const DPoP = await agent.DPoP()
  for (const subjectToken of [bound, token]) {
    const payload = JSON.parse(Buffer.from((await exchange(agent, subjectToken, AUDIENCE, { DPoP })).split('.')[1], 'base64url'))
    assert.deepEqual([payload.sub, payload.cnf], [SUBJECT_CLIENT_ID, { jkt: await DPoP.calculateThumbprint() }])
  }
  console.log(name, 'bound')

  for (const type of ['jwt', 'id_token', 'access_token']) {
    const foreign = await exchange(agent, FOREIGN_TOKEN, AUDIENCE, undefined, type)
    assert.deepEqual(await chain(agent, foreign, AGENT_CLIENT_ID, AUDIENCE, FOREIGN_SUBJECT), [AGENT_CLIENT_ID])
  }
  console.log(name, 'subject of an issuer')

  for (const sendID of [true, false]) {
    const workload = await library(SVID_CLIENT_ID, assertion('jwt-spiffe', SVID, sendID))
    const { access_token } = await workload.grant('client_credentials', { resource: AUDIENCE })
    assert.equal((await workload.claims(access_token, AUDIENCE)).sub, SVID_CLIENT_ID)
  }
  const wrong = await library(SVID_CLIENT_ID, assertion('jwt-bearer', SVID))
  await assert.rejects(wrong.grant('client_credentials', {}), { status: 401 })
  console.log(name, 'jwt-spiffe')
}
