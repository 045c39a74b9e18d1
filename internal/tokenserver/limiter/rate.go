package limiter

import (
	"sync"
	"time"
)

// minCleanupSize is the number of clients above which a RateLimiter removes idle clients.
const minCleanupSize = 1024

// RateLimiter limits how often per second each client may do something. It is safe for concurrent
// use. It remembers the clients of the last second, and at most as many idle clients.
type RateLimiter struct {
	mu sync.Mutex
	// clients are the theoretical arrival times by client UID, in Unix nanoseconds.
	clients     map[string]int64
	cleanupSize int // number of clients that triggers the next cleanup
}

// NewRateLimiter returns a RateLimiter that remembers no clients.
func NewRateLimiter() *RateLimiter {
	return &RateLimiter{clients: map[string]int64{}, cleanupSize: minCleanupSize}
}

// Allow reports whether the client with that UID is within its limit: perSecond events at once, and
// as many in each following second. Rejected events do not count. If perSecond is 0, there is no
// limit.
func (l *RateLimiter) Allow(clientUID string, perSecond int32, now time.Time) bool {
	if perSecond == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next, ok := advance(l.clients[clientUID], now, int64(perSecond), time.Second/time.Duration(perSecond))
	l.clients[clientUID] = next
	if len(l.clients) >= l.cleanupSize {
		l.cleanup(now.UnixNano())
	}
	return ok
}

// cleanup removes the clients that have their full limit available again.
func (l *RateLimiter) cleanup(at int64) {
	for uid, theoreticalArrival := range l.clients {
		if theoreticalArrival <= at {
			delete(l.clients, uid)
		}
	}
	l.cleanupSize = max(minCleanupSize, 2*len(l.clients))
}

// Size returns the number of remembered clients.
func (l *RateLimiter) Size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.clients)
}
