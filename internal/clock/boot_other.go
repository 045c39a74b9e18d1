//go:build !linux

package clock

import "time"

// sinceBoot returns Go's monotonic clock.
func sinceBoot() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
