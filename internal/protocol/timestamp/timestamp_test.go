package timestamp_test

import (
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

func TestNext(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	soon, later := now.Add(time.Second), now.Add(time.Hour)
	for name, test := range map[string]struct {
		times []time.Time
		want  time.Time
	}{
		"none":                 {nil, time.Time{}},
		"never, now, and past": {[]time.Time{{}, now, now.Add(-time.Second)}, time.Time{}},
		"the earliest":         {[]time.Time{later, {}, soon, now, later}, soon},
	} {
		if got := timestamp.Next(now, test.times...); !got.Equal(test.want) {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestRoundUp(t *testing.T) {
	whole := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]time.Time{
		{}:                                      {},
		whole:                                   whole,
		whole.Add(1):                            whole.Add(time.Second),
		whole.Add(time.Second - 1):              whole.Add(time.Second),
		whole.Add(time.Second):                  whole.Add(time.Second),
		whole.Add(-1).In(time.FixedZone("", 1)): whole,
	} {
		if got := timestamp.RoundUp(at); !got.Equal(want) {
			t.Errorf("%s: got %s, want %s", at, got, want)
		}
	}
}
