package issuerkeys

import (
	"testing"
	"time"
)

var production = schedule{refresh: refreshInterval, retry: retryInterval, maximum: maxRetry, minimum: minInterval}

func TestSchedule(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		got  time.Time
		want time.Duration
	}{
		"first fetch without keys":          {production.first(at, false, 0.9), 0},
		"first fetch with keys, early":      {production.first(at, true, 0), 0},
		"first fetch with keys, late":       {production.first(at, true, 0.5), 30 * time.Second},
		"after a success, at the latest":    {production.next(at, 0, 0), 10 * time.Minute},
		"after a success, earlier":          {production.next(at, 0, 0.5), 9*time.Minute + 30*time.Second},
		"after one failure":                 {production.next(at, 1, 0.5), 30 * time.Second},
		"after two failures":                {production.next(at, 2, 0.5), time.Minute},
		"after four failures":               {production.next(at, 4, 0.5), 4 * time.Minute},
		"after five failures":               {production.next(at, 5, 0.5), 5 * time.Minute},
		"after a million failures":          {production.next(at, 1_000_000, 0.5), 5 * time.Minute},
		"request long before the next":      {production.requested(at, at.Add(9*time.Minute)), time.Minute},
		"request shortly before the next":   {production.requested(at, at.Add(10*time.Second)), 10 * time.Second},
		"request before the first fetch":    {production.requested(time.Time{}, at.Add(time.Minute)), time.Time{}.Add(time.Minute).Sub(at)},
		"request that was already followed": {production.requested(at, at.Add(time.Minute)), time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.got.Sub(at); got != test.want {
				t.Errorf("after %s, want %s", got, test.want)
			}
		})
	}
}
