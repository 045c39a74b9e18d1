package feed

import (
	"sync"
	"time"
)

// progress holds the latest resource version that the registry serves, and notifies the publisher
// of changes.
type progress struct {
	changed chan struct{} // holds a value if there is a change that the publisher has not received

	mu           sync.Mutex
	version      string
	changedAt    time.Time // when version last changed
	unreportedAt time.Time // when the heartbeat fell behind; zero if it is up to date
}

func newProgress() *progress {
	return &progress{changed: make(chan struct{}, 1)}
}

// reach records that the registry now serves all records up to version.
func (p *progress) reach(version string, now time.Time) {
	p.mu.Lock()
	p.version, p.changedAt = version, now
	if p.unreportedAt.IsZero() {
		p.unreportedAt = now
	}
	p.mu.Unlock()
	p.notify()
}

// report records that a heartbeat with the given version was written at the given time.
func (p *progress) report(version string, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unreportedAt = time.Time{}
	if p.version != version {
		p.unreportedAt = at // later changes happened after at
	}
}

// notify wakes up the publisher, even if the version has not changed.
func (p *progress) notify() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// reached returns the latest served version, or "" before the first load.
func (p *progress) reached() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version
}

// lag returns how long the heartbeat has been behind the served version.
func (p *progress) lag(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unreportedAt.IsZero() {
		return 0
	}
	return max(0, now.Sub(p.unreportedAt))
}

// lastChange returns when the version last changed, or zero before the first load.
func (p *progress) lastChange() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changedAt
}
