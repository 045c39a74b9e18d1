package tokenserver

// SourceOf exports sourceOf.
var SourceOf = sourceOf
