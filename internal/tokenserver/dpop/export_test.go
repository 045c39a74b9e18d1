package dpop

// Normalize is exported for tests.
var Normalize = normalize
