// Package timestamp calculates with times of API objects and certificates, which have whole seconds.
package timestamp

import "time"

// Latest returns the later of two times.
func Latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// Earliest returns the earlier of two times. Zero means never.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Next returns the earliest time that is after now, or zero.
func Next(now time.Time, times ...time.Time) (next time.Time) {
	for _, at := range times {
		if at.After(now) {
			next = Earliest(next, at)
		}
	}
	return next
}

// RoundUp rounds up to a whole second.
func RoundUp(at time.Time) time.Time { return at.Add(time.Second - 1).Truncate(time.Second) }

// Format formats a time for a message or a spec, in UTC (RFC 3339).
func Format(at time.Time) string { return at.UTC().Format(time.RFC3339) }
