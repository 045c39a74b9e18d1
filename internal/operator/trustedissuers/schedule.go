package trustedissuers

import "time"

// Intervals of production. An issuer that publishes a key one refreshInterval before it signs is
// never missed. The others are found within minInterval after a token server has asked.
const (
	refreshInterval = 10 * time.Minute
	retryInterval   = 30 * time.Second
	maxRetry        = 5 * time.Minute
	minInterval     = time.Minute
)

// schedule determines when to fetch. Each random argument is in [0, 1) and distributes the fetches of
// many issuers.
type schedule struct {
	// refresh is the maximum time between the starts of two fetches after a success.
	refresh time.Duration
	// retry is the time after the first failure. It doubles with each further one, up to maximum.
	retry, maximum time.Duration
	// minimum is the minimum time from the last fetch to a requested one.
	minimum time.Duration
}

// first returns the time of the first fetch. Without keys it is urgent. An operator that has just
// become the leader has keys from the record, and fetches those of all issuers within a minute.
func (s schedule) first(now time.Time, haveKeys bool, random float64) time.Time {
	if !haveKeys {
		return now
	}
	return now.Add(time.Duration(random * float64(s.minimum)))
}

// next returns the time of the fetch after one that started at the given time, which was the last of
// the given number of consecutive failures, or a success.
func (s schedule) next(started time.Time, failures int, random float64) time.Time {
	if failures == 0 {
		return started.Add(s.refresh - time.Duration(random*float64(s.refresh)/10))
	}
	delay := s.retry
	for range failures - 1 {
		if delay *= 2; delay >= s.maximum {
			break
		}
	}
	return started.Add(min(delay, s.maximum))
}

// requested returns the time of the next fetch after a request for keys. started is the time of the
// last fetch, or zero, and next the planned time.
func (s schedule) requested(started, next time.Time) time.Time {
	if earliest := started.Add(s.minimum); earliest.Before(next) {
		return earliest
	}
	return next
}
