// Package interop tests the product with third-party clients, verifiers and gateways. Each of them
// is set up as its own documentation describes.
//
// The tests require curl, nginx and Node.js with the packages in node/package-lock.json. `make
// peers` installs the ones that are missing.
package interop
