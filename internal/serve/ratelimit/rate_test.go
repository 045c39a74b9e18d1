package ratelimit_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
)

func TestRateLimitPerClient(t *testing.T) {
	l := ratelimit.NewRateLimiter()
	allowed := func(client string, perSecond int32, at time.Duration) int {
		for n := range 100 {
			if !l.Allow(client, perSecond, start.Add(at)) {
				return n
			}
		}
		return 100
	}
	const second = time.Second
	for _, step := range []struct {
		name, client string
		perSecond    int32
		at           time.Duration
		want         int
	}{
		{"burst", "a", 5, 0, 5},
		{"another client", "b", 5, 0, 5},
		{"no limit", "c", 0, 0, 100},
		{"after a fifth of a second", "a", 5, second / 5, 1},
		{"after another second", "a", 5, second + second/5, 5},
		{"raising the limit adds no burst", "a", 50, second + second/5, 0},
		{"after the limit was raised", "a", 50, second + 2*second/5, 10},
		{"one per second", "d", 1, 0, 1},
		{"after the clock stepped back", "d", 1, -time.Hour, 0},
		{"one second after the clock stepped back", "d", 1, -time.Hour + second, 1},
	} {
		testkit.Diff(t, step.name, step.want, allowed(step.client, step.perSecond, step.at))
	}
}

func TestRateLimiterForgetsIdleClients(t *testing.T) {
	l := ratelimit.NewRateLimiter()
	for i := range 100_000 {
		l.Allow(strconv.Itoa(i), 1, start.Add(time.Duration(i)*time.Millisecond))
	}
	if got := l.Size(); got > 4096 {
		t.Errorf("%d clients are remembered although only 1,000 were active in the last second", got)
	}
}
