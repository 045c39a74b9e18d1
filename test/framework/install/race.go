//go:build race

package install

// buildFlags enables the race detector in the product's binaries because the tests were built with
// it. A data race ends the process.
var buildFlags = []string{"-race"}
