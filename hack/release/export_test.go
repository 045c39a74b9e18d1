package main

// Exported for tests.
var (
	CheckVersion = checkVersion
	CheckTree    = checkTree
	ReleaseNotes = releaseNotes
	SelectOnly   = selectPlatforms
	ErrVersion   = errVersion
	ErrDirty     = errDirty
	ErrNotTag    = errNotTag
	ErrNotes     = errNotes
	ErrPlatform  = errPlatform
	Placeholder  = placeholder
)
