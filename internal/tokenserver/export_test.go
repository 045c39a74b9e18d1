package tokenserver

// SlowRoom gives tests the memory for slow verifications.
var SlowRoom = slowRoom

// Remembered is how many good results a server keeps in mind after that many.
func Remembered(results int) (kept int, newestKept bool) {
	s := newSlowSecrets(nil)
	var print fingerprint
	for i := range results {
		print[0], print[1], print[2] = byte(i), byte(i>>8), byte(i>>16)
		s.remember(print)
	}
	return len(s.recent) + len(s.older), s.remembers(print)
}
