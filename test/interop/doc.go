// Package interop tests the product with third-party clients, verifiers and gateways, each set up
// as its own documentation describes.
//
// The tests require curl, jq, nginx, Python, a JDK and Node.js with the packages in
// node/package-lock.json. `make peers` installs any that are missing.
package interop
