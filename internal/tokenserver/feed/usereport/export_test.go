package usereport

// LimitPending sets the maximum number of credentials whose use is not reported yet.
func (r *Recorder) LimitPending(n int) { r.maxPending = n }
