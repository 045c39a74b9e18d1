//go:build race

package install

// buildFlags make the binaries what the tests are: what the race detector finds ends the process.
var buildFlags = []string{"-race"}
