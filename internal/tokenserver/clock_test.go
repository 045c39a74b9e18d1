package tokenserver_test

import (
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/clock"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
)

// A machine's clock that steps, either way, makes no token from the future, and none that
// has expired when it is handed out.
func TestClockThatStepsMakesNoTokenFromTheFuture(t *testing.T) {
	var elapsed, off time.Duration
	c := clock.New(clock.Machine{
		Wall:    func() time.Time { return now.Add(elapsed + off) },
		Elapsed: func() time.Duration { return elapsed },
	})
	c.Observe(now.Truncate(time.Second)) // the API server's Date
	s := startLoaded(t, func(o *tokenserver.Options) { o.Now = c.Now })
	client := s.clientOf(t, "HTTP/1.1")
	for _, off = range []time.Duration{0, time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour, 0} {
		elapsed += time.Minute
		got := s.send(t, client, request{query: grant, authorization: basic("billing", secret)})
		if got.status != 200 {
			t.Fatalf("off by %s: status %d with %s", off, got.status, got.body)
		}
		claims := payload(t, accessToken(t, got))
		issued, _ := claims["iat"].(float64)
		if late := now.Add(elapsed).Unix() - int64(issued); late < 0 || late > 1 {
			t.Errorf("with a clock that is off by %s the token is issued %d s ago", off, late)
		}
	}
}
