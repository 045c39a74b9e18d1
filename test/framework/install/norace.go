//go:build !race

package install

// buildFlags is empty because the tests run without the race detector.
var buildFlags []string
