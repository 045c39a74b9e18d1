// Package version holds the version of this build, and the versions of Kubernetes that it supports.
package version

// Version and Revision are set at link time.
var (
	Version  = "dev"
	Revision = "unknown"
)

// String returns the version followed by the revision in parentheses.
func String() string { return Version + " (" + Revision + ")" }
