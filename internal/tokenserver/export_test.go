package tokenserver

// WithStoredProofs limits the number of used proofs that have not expired yet.
func WithStoredProofs(limit int) func(*Options) {
	return func(o *Options) { o.storedProofs = limit }
}
