// Package beside runs other projects' programs, each with the configuration on its page in docs/works-with, and
// compares what their users see with what the page says. Most run against the local issuer. Flux,
// cert-manager, oidc-provider, and Firefox run with a control plane. `make beside` installs the programs first.
package beside
