package tokenserver

// SlowRoom gives tests the memory for slow verifications.
var SlowRoom = slowRoom

// Remembered is how many good results a server keeps in mind after that many.
func Remembered(results int) (kept int, newestKept bool) {
	s := newSlowSecrets(nil)
	var result fingerprint
	for i := range results {
		result[0], result[1], result[2] = byte(i), byte(i>>8), byte(i>>16)
		s.remember(result)
	}
	return len(s.recent) + len(s.older), s.remembers(result)
}

// SourceOf gives tests the address that a request counts as coming from.
var SourceOf = sourceOf
