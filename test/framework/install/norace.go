//go:build !race

package install

// buildFlags is empty because the tests were built without the race detector.
var buildFlags []string
