package feed

import "context"

// BeginList begins a list that is streamed, as a watch does.
func (f *Feed) BeginList() { f.saved.Begin() }

// RestoreNow loads the previous process's records, as after a failed request.
func (f *Feed) RestoreNow() {
	f.signalFailure(context.Canceled)
	f.loadSaved(context.Background())
}

// RunKeys decrypts keys until ctx is done, as Run does.
func (f *Feed) RunKeys(ctx context.Context) { f.keys.run(ctx) }

// WaitingKeys returns the number of keys that aren't decrypted yet.
func (f *Feed) WaitingKeys() int {
	return f.keys.count(func(r *realmKeys) int { return len(r.waiting) })
}

// UndecryptedRealms returns the realms that the heartbeat reports.
func (f *Feed) UndecryptedRealms() (pending, active []string) { return f.keys.undecrypted() }

// WaitsForKeys reports whether keys of a record aren't decrypted yet.
func (f *Feed) WaitsForKeys(record string) bool {
	f.keys.mu.Lock()
	defer f.keys.mu.Unlock()
	return len(f.keys.realms[record].waiting) > 0
}

// FailedAttempts returns the number of failed attempts to decrypt keys of a record. The delay until the
// next attempt grows with it.
func (f *Feed) FailedAttempts(record string) int { return f.keys.queue.NumRequeues(record) }
