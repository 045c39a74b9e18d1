//go:build race

package install

// buildFlags enables the race detector in the binaries because it is enabled in the tests. A data
// race ends the process.
var buildFlags = []string{"-race"}
