package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns a clock that, unlike Go's monotonic clock, keeps running while the machine is
// suspended.
func sinceBoot() func() time.Duration {
	start := time.Now()
	return func() time.Duration {
		var now unix.Timespec
		if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
			return time.Since(start)
		}
		return time.Duration(now.Nano())
	}
}
