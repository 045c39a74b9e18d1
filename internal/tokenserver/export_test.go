package tokenserver

// SourceOf gives tests the address that a request counts as coming from.
var SourceOf = sourceOf
