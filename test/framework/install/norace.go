//go:build !race

package install

// buildFlags make the binaries what the tests are.
var buildFlags []string
