package feed

import (
	"context"
	"sync"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
)

const (
	// maxSilence is how long the watch may be silent. The API server sends a bookmark about once a
	// minute even if no record changes, so a longer silence means that changes may not arrive.
	maxSilence = 90 * time.Second
	// maxUnanswered is how long heartbeats may go unanswered. The operator stops waiting for this
	// server after the same time.
	maxUnanswered = heartbeat.Duration
	// maxListing limits a watch that starts with a list of all records.
	maxListing = 5 * time.Minute
)

// contact decides whether changes of records reach this server. Only the watch can prove this: a
// watch that is silent, forbidden or can't be established delivers no changes, even if the API
// server answers other requests. Unanswered heartbeats show a lost connection earlier than a silent
// watch does.
type contact struct {
	mu       sync.Mutex
	current  time.Time   // when the records were last known to be current
	proven   bool        // whether this process has received the records from the API server
	answered time.Time   // when the API server last answered
	silence  *time.Timer // ends the open watch; nil before the first one
	endWatch context.CancelFunc
}

func newContact(start time.Time) *contact { return &contact{current: start} }

// prove records that the watch delivered a list, a change or a bookmark.
func (c *contact) prove(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, c.answered, c.proven = now, now, true
	if c.silence != nil {
		c.silence.Reset(maxSilence)
	}
}

// answer records that the API server answered a heartbeat. After contact was lost, an answer does
// not restore it, because the watch may not be open yet.
func (c *contact) answer(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.answered) < maxUnanswered {
		c.answered = now
	}
}

// restore records that the served records come from a previous process, which last knew at the
// given time that they were current.
func (c *contact) restore(current time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.proven && current.Before(c.current) {
		c.current = current
	}
}

// staleness returns how long ago the records were last known to be current, or 0 while changes
// reach this server.
func (c *contact) staleness(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proven && now.Sub(c.current) < maxSilence && now.Sub(c.answered) < maxUnanswered {
		return 0
	}
	return max(0, now.Sub(c.current))
}

// watchContext returns a context for a new watch. It is canceled if the watch is silent for too
// long, so that the reflector lists the records again.
func (c *contact) watchContext(ctx context.Context, lists bool) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	limit := maxSilence
	if lists {
		limit = maxListing
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silence != nil {
		c.silence.Stop()
		c.endWatch() // of the last watch, which has ended; its context would stay in memory
	}
	c.silence, c.endWatch = time.AfterFunc(limit, cancel), cancel
	return ctx
}
