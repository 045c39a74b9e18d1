//go:build !nightly

package env

// nightly means that the tests have the build tag nightly.
const nightly = false
