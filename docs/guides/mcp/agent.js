// An agent that calls the tool whoami of an MCP server, and authenticates in the realm in one of
// three ways.
import { readFileSync } from 'node:fs'
import {
  ClientCredentialsProvider,
  PrivateKeyJwtProvider,
  StaticPrivateKeyJwtProvider,
} from '@modelcontextprotocol/sdk/client/auth-extensions.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const { ISSUER, RESOURCE, CLIENT_ID, CLIENT_SECRET, PRIVATE_KEY_FILE, TOKEN_FILE } = process.env

// With expectedIssuer, an MCP server can't make the agent send its credentials elsewhere.
const common = { clientId: CLIENT_ID, expectedIssuer: ISSUER }
const providers = {
  secret: () => new ClientCredentialsProvider({ ...common, clientSecret: CLIENT_SECRET }),
  key: () => new PrivateKeyJwtProvider({ ...common, privateKey: readFileSync(PRIVATE_KEY_FILE, 'utf8'), algorithm: 'ES256' }),
  // A token of a service account, or of another trusted issuer. Create the provider again when the
  // file changes, because the provider always presents the same token.
  token: () => new StaticPrivateKeyJwtProvider({ ...common, jwtBearerAssertion: readFileSync(TOKEN_FILE, 'utf8').trim() }),
}

const authProvider = providers[process.argv[2]]()
const client = new Client({ name: 'agent', version: '1.0.0' })
await client.connect(new StreamableHTTPClientTransport(new URL(RESOURCE), { authProvider }))
const { content } = await client.callTool({ name: 'whoami' })
console.log(content[0].text)
await client.close()
