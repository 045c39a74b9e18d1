// Package interop has only tests: the real programs together with the clients and verifiers
// that people use, each as its own documentation says.
package interop
