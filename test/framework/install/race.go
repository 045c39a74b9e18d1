//go:build race

package testinstall

// buildFlags make the binaries what the tests are: what the race detector finds ends the process.
var buildFlags = []string{"-race"}
