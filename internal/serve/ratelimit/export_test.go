package ratelimit

// Size returns the number of clients in the table.
func (l *RateLimiter) Size() int { return len(l.clients) }
