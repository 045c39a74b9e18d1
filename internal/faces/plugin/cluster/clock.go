package cluster

import (
	"net/http"
	"sync"
	"time"
)

// Clock derives the time of the API server from its responses. The plugin uses this time in
// specs, because the clock of the user's machine may be wrong. A wrong time could delay a rotation,
// or leave tokens valid that the user wants to revoke.
type Clock struct {
	mu     sync.Mutex
	offset time.Duration
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// observe updates the clock from the Date header of a response.
func (s *Clock) observe(response *http.Response, err error) (*http.Response, error) {
	if err != nil {
		return response, err
	}
	if date, parseErr := http.ParseTime(response.Header.Get("Date")); parseErr == nil {
		s.mu.Lock()
		s.offset = time.Until(date)
		s.mu.Unlock()
	}
	return response, nil
}

// Now returns the time of the API server.
func (s *Clock) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.offset)
}

// Next returns the next full second of the API server. Times in a spec have whole seconds. Rounding
// up ensures that everything up to now was before this time.
func (s *Clock) Next() time.Time { return s.Now().UTC().Truncate(time.Second).Add(time.Second) }
