package trustedissuers

import (
	"context"
	"time"
)

// worker fetches the keys of one issuer.
type worker struct {
	realm  string
	issuer Issuer
	wake   chan struct{} // a request for keys; holds at most one

	// The Fetcher's mu protects the following fields.
	cancel context.CancelFunc // nil before the worker runs
	state  State
	// recorded is the recorded fetch when the Realm was last reconciled.
	recorded time.Time
}

// replaced sets the recorded fetch. If it is one of another operator, the keys are fetched again soon,
// because a result that began before it is not used. The caller must hold mu.
func (w *worker) replaced(recorded time.Time) {
	if !recorded.Equal(w.recorded) && !recorded.Equal(w.state.FetchedAt) {
		w.request()
	}
	w.recorded = recorded
}

// request makes the next fetch happen as soon as the schedule allows.
func (w *worker) request() {
	select {
	case w.wake <- struct{}{}:
	default: // a request is waiting already
	}
}

// stop ends the worker. A fetch that is under way is canceled, and its result is discarded.
func (w *worker) stop() {
	if w.cancel != nil {
		w.cancel()
	}
}

// run fetches keys until ctx is canceled.
func (f *Fetcher) run(ctx context.Context, w *worker) {
	keys, err := f.newSource(w.issuer)
	if err != nil {
		return // the Realm isn't Accepted with such an issuer
	}
	var started time.Time // of the last fetch
	failures := 0
	next := f.schedule.first(time.Now(), w.issuer.HaveKeys, f.random())
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
			next = f.schedule.requested(started, next)
		case <-timer.C:
			started = time.Now()
			after, startedAt := f.begin(w)
			fetched, err := keys.keys(ctx)
			f.record(ctx, w, after, startedAt, fetched, err)
			if failures++; err == nil {
				failures = 0
			}
			next = f.schedule.next(started, failures, f.random())
		}
		timer.Reset(time.Until(next))
	}
}
