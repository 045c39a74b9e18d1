// Package interop has only tests: the real programs together with the clients, verifiers and
// gateways that people use, each as its own documentation says.
//
// They need Node.js with the packages that node/package-lock.json pins, nginx and curl; `make
// peers` installs what is missing.
package interop
