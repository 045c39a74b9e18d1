package clock_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/operator/clock"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A machine's clock that is wrong changes nothing, because the API server's counts.
func TestClock(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	type step struct {
		pass         time.Duration // before the step
		wall, server time.Duration // offsets of the clocks from the true time
		delay        time.Duration // of the response
		unavailable  bool          // the API server
		want         time.Duration
	}
	for name, steps := range map[string][]step{
		"before the first response":                 {{unavailable: true, wall: time.Hour, want: time.Hour}},
		"slightly ahead":                            {{wall: 59 * time.Second, want: 59 * time.Second}},
		"behind, then corrected":                    {{wall: -time.Hour}, {pass: time.Hour}},
		"ahead, then corrected":                     {{}, {pass: time.Second, wall: time.Hour}, {pass: 24 * time.Hour, wall: time.Hour}, {pass: time.Second}},
		"ahead while the API server is unavailable": {{}, {pass: time.Hour, wall: 2 * time.Hour, unavailable: true}},
		"the API server is ahead":                   {{server: time.Hour, want: time.Hour}, {pass: time.Second}},
		"the API server is behind":                  {{server: -time.Hour, want: -time.Hour}, {pass: time.Second}},
		"a slow response":                           {{}, {pass: time.Minute, server: -time.Hour, delay: 2 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			now := start
			var at step
			c := clock.New(func() time.Time { return now.Add(at.wall) }, func() time.Duration { return now.Sub(start) })
			transport := c.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
				now = now.Add(at.delay)
				return &http.Response{Header: http.Header{"Date": {now.Add(at.server).Format(http.TimeFormat)}}}, nil
			}))
			for i, s := range steps {
				at = s
				now = now.Add(s.pass)
				if !s.unavailable {
					response, err := transport.RoundTrip(nil)
					if err != nil || response == nil {
						t.Fatal(err)
					}
				}
				if got := c.Now().Sub(now); got != s.want {
					t.Errorf("step %d: the clock is off by %s, want %s", i, got, s.want)
				}
			}
		})
	}
}
