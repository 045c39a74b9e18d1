package feed

import (
	"sync"
	"time"
)

// progress holds the newest resource version that the registry serves, and notifies the publisher
// of changes.
type progress struct {
	changed chan struct{} // has a value after a change that the publisher has not received

	mu           sync.Mutex
	version      string
	changedAt    time.Time // when version last changed
	unreportedAt time.Time // since when the heartbeat is behind; zero: it is current
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

// report records that a heartbeat with version was written at the given time.
func (p *progress) report(version string, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unreportedAt = time.Time{}
	if p.version != version {
		p.unreportedAt = at // later changes are newer than at
	}
}

// notify wakes the publisher, even if the version has not changed.
func (p *progress) notify() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// reached returns the newest served version, or "" before the first load.
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

// lastChange returns the time of the last change of the version, or zero before the first load.
func (p *progress) lastChange() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changedAt
}
