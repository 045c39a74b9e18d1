package limiter

import (
	"sync"
	"time"
)

// minSwept is how many clients a Pace holds before it looks for those that it can forget.
const minSwept = 1024

// Pace lets each client do something so many times a second. It is safe for concurrent use.
// It remembers clients that did so within the last second, and at most as many others.
type Pace struct {
	mu      sync.Mutex
	clients map[string]int64 // UID → the instant at which all is forgiven, in nanoseconds since 1970
	sweepAt int              // how many clients
}

// NewPace returns a pace that nobody has gone at.
func NewPace() *Pace { return &Pace{clients: map[string]int64{}, sweepAt: minSwept} }

// Allow reports whether the client of that UID may go on now: perSecond times at once, and
// as many in each second. What isn't allowed doesn't count. A perSecond of 0 is no limit.
func (p *Pace) Allow(client string, perSecond int32, now time.Time) bool {
	if perSecond == 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	forgiven, ok := spend(p.clients[client], now, int64(perSecond), time.Second/time.Duration(perSecond))
	p.clients[client] = forgiven
	if len(p.clients) >= p.sweepAt {
		p.sweep(now.UnixNano())
	}
	return ok
}

// sweep forgets the clients that count as new anyway.
func (p *Pace) sweep(at int64) {
	for client, forgiven := range p.clients {
		if forgiven <= at {
			delete(p.clients, client)
		}
	}
	p.sweepAt = max(minSwept, 2*len(p.clients))
}

// Size returns how many clients are remembered.
func (p *Pace) Size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.clients)
}
