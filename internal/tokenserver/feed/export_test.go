package feed

import "context"

// BeginList begins a list that is streamed, as a watch does.
func (f *Feed) BeginList() { f.lastKnownGood.begin() }

// RestoreNow loads the previous process's records, as after a failed request.
func (f *Feed) RestoreNow() {
	f.recordFailure(context.Canceled)
	f.restore(context.Background())
}
