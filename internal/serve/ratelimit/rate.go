package ratelimit

import (
	"sync"
	"time"
)

// minCleanupSize is the smallest table size at which a RateLimiter removes idle clients.
const minCleanupSize = 1024

// RateLimiter enforces a per-client rate limit. It is safe for concurrent use. Idle clients are
// removed once the table reaches max(minCleanupSize, twice the number of clients left after the
// last cleanup).
type RateLimiter struct {
	mu sync.Mutex
	// clients maps client UIDs to theoretical arrival times in Unix nanoseconds.
	clients     map[string]int64
	cleanupSize int // table size that triggers the next cleanup
}

// NewRateLimiter returns an empty RateLimiter.
func NewRateLimiter() *RateLimiter {
	return &RateLimiter{clients: map[string]int64{}, cleanupSize: minCleanupSize}
}

// Allow reports whether the given client is within its limit: a burst of perSecond events, then
// perSecond events per second. Rejected events don't count. If perSecond is 0, there is no limit.
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

// cleanup removes idle clients, which have their full burst available again.
func (l *RateLimiter) cleanup(at int64) {
	for uid, theoreticalArrival := range l.clients {
		if theoreticalArrival <= at {
			delete(l.clients, uid)
		}
	}
	l.cleanupSize = max(minCleanupSize, 2*len(l.clients))
}
