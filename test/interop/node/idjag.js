// The client package of MCP: an agent exchanges an ID token at the identity provider for an ID-JAG,
// gets a token of the realm with it, and calls the tool whoami.
import { Client, CrossAppAccessProvider, StreamableHTTPClientTransport, discoverAndRequestJwtAuthGrant } from '@modelcontextprotocol/client'

const { ISSUER, RESOURCE, CLIENT_ID, CLIENT_SECRET, IDP, IDP_CLIENT_ID, ID_TOKEN } = process.env

const authProvider = new CrossAppAccessProvider({
  clientId: CLIENT_ID,
  clientSecret: CLIENT_SECRET,
  expectedIssuer: ISSUER,
  assertion: async ({ authorizationServerUrl, resourceUrl, scope, fetchFn }) => {
    const { jwtAuthGrant } = await discoverAndRequestJwtAuthGrant({
      idpUrl: IDP, idToken: ID_TOKEN, clientId: IDP_CLIENT_ID, audience: authorizationServerUrl, resource: resourceUrl, scope, fetchFn,
    })
    return jwtAuthGrant
  },
})
const client = new Client({ name: 'agent', version: '1.0.0' })
await client.connect(new StreamableHTTPClientTransport(new URL(RESOURCE), { authProvider }))
const { content } = await client.callTool({ name: 'whoami' })
console.log(content[0].text)
console.log(authProvider.tokens().access_token)
await client.close()
