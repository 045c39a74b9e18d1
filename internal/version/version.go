// Package version says which build this is.
package version

// Version and Revision are set by the linker.
var (
	Version  = "dev"
	Revision = "unknown"
)

// String returns version and revision in one line.
func String() string { return Version + " (" + Revision + ")" }
