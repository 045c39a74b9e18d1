package main

// Exported for tests.
var (
	CheckVersion = checkVersion
	CheckTree    = checkTree
	ReleaseNotes = releaseNotes
	ErrVersion   = errVersion
	ErrDirty     = errDirty
	ErrNotTag    = errNotTag
	ErrNotes     = errNotes
	Placeholder  = placeholder
)

// NewStatement returns the statement about the release in dir.
func NewStatement(version, commit, dir string) ([]byte, error) {
	return newStatement(options{version: version}, commit, dir)
}
