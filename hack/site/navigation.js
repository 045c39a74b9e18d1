// The sections of the navigation, as paths in the repository. A page has the title of its first
// heading unless it has one here. The build fails if a page is in no section.

export const titles = {
  'README.md': 'Introduction',
  'CHANGELOG.md': 'Changelog',
  'docs/dpop.md': 'DPoP',
  'docs/federation.md': 'Federation',
  'docs/gateways/README.md': 'Overview',
  'docs/guides/README.md': 'Overview',
  'docs/guides/mcp.md': 'Agents (MCP)',
  'docs/guides/other-cluster.md': 'Another cluster',
  'charts/realmkeeper/README.md': 'Helm chart values',
}

export const sections = {
  'Get started': [
    'README.md',
    'docs/local-issuer.md',
    'docs/cluster.md',
    'docs/migration.md',
    'docs/examples/README.md',
  ],
  Concepts: [
    'docs/architecture.md',
    'docs/tenancy.md',
    'docs/claims.md',
    'docs/service-accounts.md',
    'docs/federation.md',
    'docs/dpop.md',
    'docs/last-use.md',
  ],
  Guides: [
    'docs/guides/README.md',
    'docs/guides/github-actions.md',
    'docs/guides/gitlab-ci.md',
    'docs/guides/other-cluster.md',
    'docs/guides/spiffe.md',
    'docs/guides/aws.md',
    'docs/guides/google.md',
    'docs/guides/mcp.md',
  ],
  Gateways: [
    'docs/gateways/README.md',
    'docs/gateways/nginx.md',
    'docs/gateways/ingress-nginx.md',
    'docs/gateways/traefik.md',
    'docs/gateways/envoy-gateway.md',
    'docs/gateways/istio.md',
    'docs/gateways/kong.md',
    'docs/gateways/cloud.md',
    'docs/gateways/kubernetes.md',
  ],
  Operations: [
    'docs/operations.md',
    'docs/backup.md',
    'docs/gitops.md',
    'docs/tls.md',
    'docs/key-encryption.md',
    'docs/audit.md',
  ],
  Reference: [
    'docs/token-endpoint.md',
    'docs/api-reference.md',
    'docs/reasons.md',
    'docs/api-policy.md',
    'docs/kubectl-plugin.md',
    'docs/portal.md',
    'charts/realmkeeper/README.md',
  ],
  Project: [
    'CHANGELOG.md',
    'docs/release.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
  ],
}
