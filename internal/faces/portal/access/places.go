package access

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// maxActive is how many sign-ins may use a server at a time, and maxQueued how many more may wait
	// for them. Both are far below the number of requests that the portal processes at a time, so that
	// users without a session can't keep others out while a server hangs.
	maxActive, maxQueued = 16, 16
	// queueTimeout is how long a sign-in waits until another one finishes.
	queueTimeout = 2 * time.Second
)

// ErrBusy means that too many sign-ins are in progress.
var ErrBusy = errors.New("too many sign-ins are in progress")

// places limits how many sign-ins use a server, so that users without a session can neither flood it
// nor fill the portal's memory while it hangs.
type places struct {
	queue  chan struct{} // includes active ones
	active chan struct{}
}

func newPlaces() *places {
	return &places{queue: make(chan struct{}, maxActive+maxQueued), active: make(chan struct{}, maxActive)}
}

// take takes a place, which the caller must leave. It returns ErrBusy if none becomes free in time.
func (p *places) take(ctx context.Context) error {
	select {
	case p.queue <- struct{}{}:
	default:
		return ErrBusy
	}
	timer := time.NewTimer(queueTimeout)
	defer timer.Stop()
	select {
	case p.active <- struct{}{}:
		return nil
	case <-timer.C:
		<-p.queue
		return ErrBusy
	case <-ctx.Done():
		<-p.queue
		return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
}

func (p *places) leave() {
	<-p.active
	<-p.queue
}
