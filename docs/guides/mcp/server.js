// An MCP server that accepts the access tokens of a realm. Its tool whoami returns the client ID of
// the caller.
//
// RESOURCE is the public URL of the MCP endpoint. It is also the audience of the tokens.
import { createMcpExpressApp } from '@modelcontextprotocol/sdk/server/express.js'
import { InvalidTokenError } from '@modelcontextprotocol/sdk/server/auth/errors.js'
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { createRemoteJWKSet, jwtVerify } from 'jose'

const { ISSUER, RESOURCE, SCOPE, PORT } = process.env
const { pathname: path, origin } = new URL(RESOURCE)

// The metadata tells agents which realm issues tokens for this server (RFC 9728).
const metadataPath = '/.well-known/oauth-protected-resource' + path
const metadata = {
  resource: RESOURCE,
  authorization_servers: [ISSUER],
  scopes_supported: [SCOPE],
  bearer_methods_supported: ['header'],
}

// An access token of a realm follows RFC 9068. A token that is bound to a key (RFC 9449) isn't a
// bearer token, so it is rejected here.
const keys = createRemoteJWKSet(new URL(ISSUER + '/oauth2/jwks'))
const verifier = {
  async verifyAccessToken(token) {
    let claims
    try {
      ;({ payload: claims } = await jwtVerify(token, keys, {
        issuer: ISSUER,
        audience: RESOURCE,
        typ: 'at+jwt',
        algorithms: ['ES256', 'ES384', 'EdDSA', 'RS256', 'PS256'],
        requiredClaims: ['exp', 'sub', 'client_id', 'iat', 'jti'],
      }))
    } catch (error) {
      throw new InvalidTokenError(error.code ?? 'The token is invalid.')
    }
    if (claims.cnf) {
      throw new InvalidTokenError('The token is bound to a key.')
    }
    // The subject is the client, or the user for whom it acts (RFC 8693).
    const extra = { subject: claims.sub }
    return { token, clientId: claims.client_id, scopes: (claims.scope ?? '').split(' '), expiresAt: claims.exp, extra }
  },
}

const app = createMcpExpressApp() // checks the Host header, because the server listens on loopback
app.get(metadataPath, (_, response) => response.json(metadata))
const authorize = requireBearerAuth({ verifier, requiredScopes: [SCOPE], resourceMetadataUrl: origin + metadataPath })
app.post(path, authorize, async (request, response) => {
  const server = new McpServer({ name: 'orders', version: '1.0.0' })
  server.registerTool('whoami', { description: 'Returns the client ID of the caller' }, async ({ authInfo }) => ({
    content: [{ type: 'text', text: authInfo.clientId }],
  }))
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true })
  response.on('close', () => {
    transport.close()
    server.close()
  })
  await server.connect(transport)
  await transport.handleRequest(request, response, request.body)
})
app.all(path, (_, response) => response.status(405).end()) // there are no sessions or event streams
app.listen(Number(PORT), '127.0.0.1')
