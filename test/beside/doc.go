// Package beside runs other projects' programs against the local issuer, each with the configuration on its page
// in docs/works-with, and compares what their callers see with what the page says. `make beside`
// installs the programs first.
package beside
