package feed

import (
	"sync"
	"time"
)

// progress is the newest resource version that the registry serves, and wakes who
// waits for it to move.
type progress struct {
	moved chan struct{} // holds one token while the version has moved unseen

	mu      sync.Mutex
	version string
	changed time.Time // when it moved last
	untold  time.Time // since when the heartbeat is behind; zero: it isn't
}

func newProgress() *progress {
	return &progress{moved: make(chan struct{}, 1)}
}

// reach notes that everything up to version is served, from now on.
func (p *progress) reach(version string, now time.Time) {
	p.mu.Lock()
	p.version, p.changed = version, now
	if p.untold.IsZero() {
		p.untold = now
	}
	p.mu.Unlock()
	p.nudge()
}

// told notes that a heartbeat has told of version, which was written at that time.
func (p *progress) told(version string, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.untold = time.Time{}
	if p.version != version {
		p.untold = at // what came since is younger
	}
}

// nudge wakes who waits although the version has not moved.
func (p *progress) nudge() {
	select {
	case p.moved <- struct{}{}:
	default:
	}
}

// reached returns the newest version that is served; empty before the first load.
func (p *progress) reached() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version
}

// lag returns for how long the heartbeat has been behind what is served.
func (p *progress) lag(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.untold.IsZero() {
		return 0
	}
	return max(0, now.Sub(p.untold))
}

// lastChange returns when the version moved last; zero before the first load.
func (p *progress) lastChange() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}
