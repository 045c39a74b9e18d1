package registryfeed

import "sync"

// progress is the newest resource version that the registry serves, and wakes who
// waits for it to move.
type progress struct {
	moved chan struct{} // holds one token while the version has moved unseen

	mu      sync.Mutex
	version string
}

func newProgress() *progress {
	return &progress{moved: make(chan struct{}, 1)}
}

// reach notes that everything up to version is served.
func (p *progress) reach(version string) {
	p.mu.Lock()
	p.version = version
	p.mu.Unlock()
	p.nudge()
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
