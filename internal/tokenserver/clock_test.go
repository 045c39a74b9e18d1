package tokenserver_test

import (
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/clock"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
)

// Even if the system clock steps forward or back, tokens must not be issued in the future or
// already expired.
func TestClockStepsDoNotShiftTokenTimes(t *testing.T) {
	var elapsed, off time.Duration
	c := clock.New(clock.Machine{
		Wall:    func() time.Time { return now.Add(elapsed + off) },
		Elapsed: func() time.Duration { return elapsed },
	})
	c.Observe(now.Truncate(time.Second)) // as received in the API server's Date header
	s := startLoaded(t, func(o *tokenserver.Options) { o.Now = c.Now })
	client := s.clientOf(t, "HTTP/1.1")
	for _, off = range []time.Duration{0, time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour, 0} {
		elapsed += time.Minute
		got := s.send(t, client, request{query: grant, authorization: basic("billing", secret)})
		if got.status != 200 {
			t.Fatalf("clock off by %s: got %d %s, want 200", off, got.status, got.body)
		}
		claims := payload(t, accessToken(t, got))
		issued, _ := claims["iat"].(float64)
		if late := now.Add(elapsed).Unix() - int64(issued); late < 0 || late > 1 {
			t.Errorf("clock off by %s: the token was issued %d s ago, want 0 or 1", off, late)
		}
	}
}
