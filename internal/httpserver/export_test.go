package httpserver

// MemoryShort reports whether connections are closed because of what two checks of the memory have found: the
// bytes in use and the number of garbage collections.
func MemoryShort(before, live, collections uint64, limit int64) bool {
	return heap{live, collections}.short(heap{live, before}, limit)
}
