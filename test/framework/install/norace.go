//go:build !race

package testinstall

// buildFlags make the binaries what the tests are.
var buildFlags []string
