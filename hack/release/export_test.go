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
